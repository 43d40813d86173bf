#!/usr/bin/env python3
"""Prints every CUDA unit: CPU time of its compile, its kernels, their registers, spills, shared memory.

    scripts/kernel_table.py [--build FOLDER] [--summary] [--slack FACTOR]

CPU seconds are user and system time of nvcc and all that it starts, of the compile that made the
object; an object out of ccache reports the compile that filled the cache. Exit status 1 where a unit
took more than 10 CPU seconds or all of 80;90a together more than 600, each times --slack (1).
"""

import argparse
import re
import sys

import ptxas_report
from ptxas_report import ROOT

UNIT_SECONDS, ALL_SECONDS = 10.0, 600.0
# What is built for whom -> its targets; each part has the limits for itself.
PARTS = {"80;90a": {"tilefold_kernels", "tilefold_rungs"}, "100a": {"tilefold_kernels_100a"},
         "candidates": {"sm80_candidates"}}
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


def print_part(part, units, names, listing):
    print(f"\n{part}\n{'unit':21} {'CPU s':>6}  {'kernel':34} {'shared':>7}")
    for unit in sorted(units, key=lambda unit: -unit.cpu_seconds):
        head = f"{unit.name:21} {unit.cpu_seconds:6.2f}"
        for row in kernel_rows(unit, names, listing) if unit.usages else ["(no kernel)"]:
            print(f"{head}  {row}")
            head = " " * len(head)


def breaches(part, units, slack):
    """Prints the part's totals; yields what is above a limit."""
    known = [unit for unit in units if unit.cpu_seconds >= 0]
    total = sum(unit.cpu_seconds for unit in known)
    largest = max(known, key=lambda unit: unit.cpu_seconds)
    print(f"{part}: {len(units)} units, {total:.0f} CPU seconds of {ALL_SECONDS:.0f}; "
          f"the longest {largest.name} {largest.cpu_seconds:.1f} of {UNIT_SECONDS:.0f}")
    for unit in units:
        if unit.cpu_seconds < 0:
            yield f"{unit.source} ({part}): its CPU time is unknown: remove its object and build again"
        if unit.cpu_seconds > slack * UNIT_SECONDS:
            yield f"{unit.source} ({part}): {unit.cpu_seconds:.1f} CPU seconds, at most {slack * UNIT_SECONDS:g}"
    if total > slack * ALL_SECONDS:
        yield f"{part}: {total:.0f} CPU seconds, at most {slack * ALL_SECONDS:g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="build folder, relative to the repository")
    parser.add_argument("--summary", action="store_true", help="totals only")
    parser.add_argument("--slack", type=float, default=1.0, metavar="FACTOR",
                        help="multiplies the limits, for a machine at work with other things")
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
            found += breaches(part, units, options.slack)
    except ptxas_report.NoReport as missing:
        sys.exit(f"error: {missing}")
    for breach in found:
        print(f"error: {breach}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
