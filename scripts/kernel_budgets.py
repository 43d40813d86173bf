#!/usr/bin/env python3
"""Holds every CUDA kernel to its budget of registers, spills, stack and shared memory.

    scripts/kernel_budgets.py [--build FOLDER]            compares
    scripts/kernel_budgets.py [--build FOLDER] --update   writes the budgets anew

Reads tests/cuda/kernel_budgets.csv and what ptxas said when targets tilefold_kernels,
tilefold_kernels_sm90, tilefold_rungs (tilefold_hopper_rungs with it) and tilefold_kernels_100a were
built; needs target kernel_listing too. Exit status 1, with a line a breach, where
- a kernel takes more of anything than its budget, or more shared memory than a block has;
- a kernel has no budget, a budget no kernel, or a kernel no line in tests/cuda/kernel_listing.cpp;
- ptxas has an advisory C75xx: setmaxnreg ignored (C7508), wgmma serialised (C7510, C7512);
- a production kernel's budget holds spills, and no line of docs/kernels/ says so with the kernel's
  name, its architecture ("sm_100a") and what the spills gain.

Under another nvcc than the budgets' the numbers of ptxas are not compared, and a line says so.
"""

import dataclasses
import sys

import budget_file
import ptxas_report
from ptxas_report import ROOT

GOLDEN = ROOT / "tests/cuda/kernel_budgets.csv"
TARGETS = {"tilefold_kernels", "tilefold_kernels_sm90", "tilefold_rungs", "tilefold_hopper_rungs",
           "tilefold_kernels_100a"}
FIELDS = ["family", "kernel", "arch", "registers", "spill_bytes", "stack_bytes",
          "static_shared_bytes", "dynamic_shared_bytes"]
MEASURED = FIELDS[3:7]  # by ptxas
# Static and dynamic shared memory of one block, bytes.
SHARED_LIMIT = {"80": 163 * 1024, "90a": 227 * 1024, "100a": 227 * 1024}
UPDATE = ("A change that is meant: scripts/kernel_budgets.py --update, scripts/register_doc.py, commit "
          "tests/cuda/kernel_budgets.csv, and say in docs/kernels/ what it gains.")


@dataclasses.dataclass
class Golden:
    nvcc: str
    rows: dict  # (kernel, arch) -> row of FIELDS


def read_golden(path=GOLDEN):
    nvcc, lines = budget_file.read(path)
    rows = {}
    for row in lines:
        row = {field: row[field] if field in FIELDS[:3] else int(row[field]) for field in FIELDS}
        rows[row["kernel"], row["arch"]] = row
    return Golden(nvcc, rows)


def write_golden(golden, path=GOLDEN):
    budget_file.write(path, golden.nvcc, "kernel_budgets.py", FIELDS, golden.rows.values())


def actual_rows(units, listing):
    """((kernel, arch) -> row, breaches), in the listing's order."""
    usages = [usage for unit in units for usage in unit.usages]
    names = ptxas_report.demangled([usage.symbol for usage in usages])
    found, breaches = {}, []
    for usage in usages:
        function = names[usage.symbol]
        if function not in listing:
            breaches.append(f"{function} is compiled and tests/cuda/kernel_listing.cpp has no line of it")
            continue
        listed = listing[function]
        values = [listed.family, listed.name, usage.arch, usage.registers, usage.spill, usage.stack,
                  usage.static_shared, listed.dynamic_shared]
        found[function, usage.arch] = dict(zip(FIELDS, values))
    order = {function: place for place, function in enumerate(listing)}
    rows = {}
    for key in sorted(found, key=lambda key: (order[key[0]], int(key[1].rstrip("a")))):
        row = found[key]
        rows[row["kernel"], row["arch"]] = row
    return rows, breaches


def remarks(units, listing):
    """What no number of a kernel tells: advisories, and spills of functions that are not inlined."""
    for unit in units:
        names = ptxas_report.demangled([usage.symbol for usage in unit.usages])
        kernels = sorted({listing[name].name for name in names.values() if name in listing})
        for text in unit.advisories:
            yield f"{unit.source} ({', '.join(kernels)}): ptxas says {text}"
        for symbol, spill in unit.called:
            if spill > 0:
                yield f"{unit.source}: {symbol}, which is called and not inlined, spills {spill} bytes"


def limits(rows):
    """Breaches that no budget allows."""
    for row in rows.values():
        shared = row["static_shared_bytes"] + row["dynamic_shared_bytes"]
        limit = SHARED_LIMIT[row["arch"]]
        if shared > limit:
            yield f"{label(row)}: {shared} bytes of shared memory, a block has {limit}"


def undocumented_spills(rows, documents):
    """Budgets of production kernels with spills that no line of the documents accounts for."""
    for row in rows.values():
        if row["spill_bytes"] == 0 or row["family"] == "ladder":
            continue
        words = (row["kernel"], f"sm_{row['arch']}", "spill")
        if not any(all(word in line for word in words) for line in documents):
            yield (f"{label(row)}: {row['spill_bytes']} spill bytes; a production kernel has none, "
                   "unless a line of docs/kernels/ names both and says what the spills gain")


def label(row):
    return f"{row['kernel']}, sm_{row['arch']}"


def compare(rows, golden, same_compiler):
    """Breaches of budgets. Those that ptxas measures count for its own version only."""
    for key, row in rows.items():
        if key not in golden.rows:
            yield f"{label(row)}: it has no budget"
            continue
        budget = golden.rows[key]
        for field in FIELDS[3:]:
            if row[field] > budget[field] and (same_compiler or field not in MEASURED):
                yield f"{label(row)}: {field} {row[field]}, budget {budget[field]}"
    for key, budget in golden.rows.items():
        if key not in rows:
            yield f"{label(budget)}: it has a budget and is not compiled"


def below(rows, golden):
    return sum(any(row[field] < golden.rows[key][field] for field in FIELDS[3:])
               for key, row in rows.items() if key in golden.rows)


def measured(build):
    """(rows, breaches that have nothing to do with budgets) of a build folder."""
    units = [unit for unit in ptxas_report.read_units(build, TARGETS)
             if not unit.source.startswith("bench/")]
    listing = ptxas_report.listing(build)
    rows, breaches = actual_rows(units, listing)
    return rows, breaches + list(remarks(units, listing)) + list(limits(rows))


def document_lines():
    return [line for path in sorted((ROOT / "docs/kernels").glob("*.md"))
            for line in path.read_text().splitlines()]


def report(rows, breaches, golden, nvcc):
    for breach in breaches:
        print(f"error: {breach}")
    if breaches:
        print(UPDATE)
        return 1
    if nvcc != golden.nvcc:
        print(f"skipped: registers and spills of kernels: budgets are nvcc {golden.nvcc}'s, this is {nvcc}")
    if tighter := below(rows, golden):
        print(f"{tighter} kernels are below their budgets: --update tightens them")
    print(f"{len(rows)} kernels within tests/cuda/kernel_budgets.csv, nvcc {nvcc}")
    return 0


def main():
    build, update = budget_file.options(__doc__.splitlines()[0])
    try:
        rows, breaches = measured(build)
    except ptxas_report.NoReport as missing:
        sys.exit(f"error: {missing}")
    nvcc, golden = ptxas_report.compiler_version(build), read_golden()
    if update:
        golden = Golden(nvcc, rows)
        write_golden(golden)
    breaches += compare(rows, golden, nvcc == golden.nvcc)
    breaches += undocumented_spills(golden.rows, document_lines())
    sys.exit(report(rows, breaches, golden, nvcc))


if __name__ == "__main__":
    main()
