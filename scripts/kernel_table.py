#!/usr/bin/env python3
"""Prints every CUDA unit: CPU time of its compile, its kernels, their registers, spills, shared memory.

    scripts/kernel_table.py [--build FOLDER] [--summary] [--slack FACTOR]

CPU seconds are user and system time of nvcc and all that it starts, of the compile that made the
object; an object out of ccache reports the compile that filled the cache. Limits are seconds of one
machine: column `of 10` is what the unit would have taken there, by what the reference took beside it
(scripts/compile_clock.py). Exit status 1 where a unit is above 10 or a part's sum above 600, each
times --slack (1.5). A unit above is compiled again first, beside the reference, up to three times: what
else a machine does only adds to either, so the least of each counts.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import compile_clock
import ptxas_report
from ptxas_report import ROOT

UNIT_SECONDS, ALL_SECONDS = 10.0, 600.0
# Neighbours on a core's other thread, which come and go between a unit and its reference: the same unit
# took 8.1 to 12.9 CPU seconds within a quarter of an hour (2026-11-30).
SLACK = 1.5
ATTEMPTS = 3  # compiles of a unit above its limit
# What is built for whom -> its targets; each part has the limits for itself.
PARTS = {"80;90a": {"tilefold_kernels", "tilefold_kernels_sm90", "tilefold_rungs", "tilefold_hopper_rungs"},
         "100a": {"tilefold_kernels_100a"}, "candidates": {"sm80_candidates"}}
OPTIONAL = {"candidates"}  # shown where they are built


def read_parts(build):
    """Part -> its units. Raises NoReport."""
    parts = {}
    for part, targets in PARTS.items():
        try:
            parts[part] = ptxas_report.read_units(build, targets)
        except ptxas_report.NoReport:
            if part not in OPTIONAL:
                raise
    return parts


def shortened(function):
    """A function that kernel_listing does not know, without namespaces and types of constants."""
    return re.sub(r"\([\w:]+\)|\w*::", "", function).replace("Choice<ForwardConfig", "").replace("}>", "}")


def kernel_rows(unit, names, listing):
    """One row a kernel: its name, shared bytes, then registers and spilled bytes an architecture."""
    by_function = {}
    for usage in unit.usages:
        by_function.setdefault(names[usage.symbol], []).append(usage)
    for function, usages in by_function.items():
        listed = listing.get(function)
        name = listed.name if listed else shortened(function)
        shared = usages[0].static_shared + listed.dynamic_shared if listed else "-"
        figures = ", ".join(f"{u.arch}: {u.registers} registers, {u.spill} spilled" for u in usages)
        yield f"{name:34} {shared:>7}  {figures}"


def counted(unit):
    """The unit's seconds as the limits mean them."""
    return compile_clock.on_reference_machine(unit.cpu_seconds, unit.reference_seconds)


def print_part(part, units, names, listing):
    print(f"\n{part}\n{'unit':21} {'CPU s':>6} {'of 10':>6}  {'kernel':34} {'shared':>7}")
    for unit in sorted(units, key=lambda unit: -unit.cpu_seconds):
        head = f"{unit.name:21} {unit.cpu_seconds:6.2f} {counted(unit):6.2f}"
        for row in kernel_rows(unit, names, listing) if unit.usages else ["(no kernel)"]:
            print(f"{head}  {row}")
            head = " " * len(head)


def compiled_again(unit, build, limit):
    """The unit's seconds as the limits mean them, by new compiles of it and of the reference: as many
    as it takes to fall to the limit, at most ATTEMPTS of each. Raises NoReport."""
    seconds, references = [], []
    with tempfile.TemporaryDirectory() as folder:
        command = list(unit.command)
        command[command.index("-o") + 1] = str(Path(folder) / "again.o")
        while len(seconds) < ATTEMPTS:
            status, taken = compile_clock.cpu_seconds(
                command, cwd=build, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            reference = compile_clock.measure(command[0])
            if status != 0 or reference is None:
                raise ptxas_report.NoReport(f"{unit.source} or the reference does not compile again")
            seconds.append(taken)
            references.append(reference)
            least = compile_clock.on_reference_machine(min(seconds), min(references))
            if least <= limit:
                break
    return least


def breaches(part, units, slack, again):
    """Prints the part's totals; yields what is above a limit. again(unit, limit) compiles anew."""
    known = [unit for unit in units if unit.cpu_seconds >= 0]
    total, total_counted = sum(unit.cpu_seconds for unit in known), sum(map(counted, known))
    largest = max(known, key=counted)
    print(f"{part}: {len(units)} units, {total:.0f} CPU seconds, {total_counted:.0f} of {ALL_SECONDS:.0f}; "
          f"the longest {largest.name} {largest.cpu_seconds:.1f}, {counted(largest):.1f} of {UNIT_SECONDS:.0f}")
    for unit in units:
        if unit.cpu_seconds < 0:
            yield f"{unit.source} ({part}): its CPU time is unknown: remove its object and build again"
        elif counted(unit) > slack * UNIT_SECONDS:
            seconds = again(unit, slack * UNIT_SECONDS)
            print(f"{unit.source} ({part}): {counted(unit):.1f}, compiled again {seconds:.1f}")
            if seconds > slack * UNIT_SECONDS:
                yield (f"{unit.source} ({part}): {unit.cpu_seconds:.1f} CPU seconds here, {seconds:.1f} by "
                       f"the reference, at most {slack * UNIT_SECONDS:g}")
    if total_counted > slack * ALL_SECONDS:
        yield (f"{part}: {total:.0f} CPU seconds here, {total_counted:.0f} by the reference, "
               f"at most {slack * ALL_SECONDS:g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="build folder, relative to the repository")
    parser.add_argument("--summary", action="store_true", help="totals only")
    parser.add_argument("--slack", type=float, default=SLACK, metavar="FACTOR",
                        help=f"multiplies the limits ({SLACK})")
    options = parser.parse_args()
    build = (ROOT / options.build).resolve()
    found = []
    try:
        parts = read_parts(build)
        if not options.summary:
            listing = ptxas_report.listing(build)
            symbols = [usage.symbol for units in parts.values() for u in units for usage in u.usages]
            names = ptxas_report.demangled(symbols)
            for part, units in parts.items():
                print_part(part, units, names, listing)
            print()
        for part, units in parts.items():
            found += breaches(part, units, options.slack,
                              lambda unit, limit: compiled_again(unit, build, limit))
    except ptxas_report.NoReport as missing:
        sys.exit(f"error: {missing}")
    for breach in found:
        print(f"error: {breach}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
