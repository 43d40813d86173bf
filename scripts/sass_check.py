#!/usr/bin/env python3
"""Holds the machine code of the sm90 forward to what its speed stands on.

    scripts/sass_check.py [--build FOLDER]            compares, and prints a table
    scripts/sass_check.py [--build FOLDER] --update   writes tests/cuda/sass_budgets.csv anew

Disassembles the objects of target tilefold_kernels_sm90, two at a time; needs target kernel_listing
too. Exit status 1, with a line a breach, where
- a kernel has no HGMMA (wgmma) or no UTMALDG (TMA load), or no main loop;
- a range kernel has more R2UR between the first and the last HGMMA of its main loop than its budget:
  a descriptor has left the uniform registers (docs/kernels/forward_sm90.md);
- the main loop of any kernel reads or writes local memory (LDL, STL): a spill there is paid a tile;
- a range kernel has no budget, or a budget no kernel.

The main loop is the shortest that holds both products: head_dim / 16 HGMMA of the scores and
tile_keys / 16 of the output. Under another nvcc than the budgets' R2UR is not compared, and where
there is no disassembler (scripts/find_disassembler.sh) nothing is: a line says so.
"""

import collections
import concurrent.futures
import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import budget_file
import ptxas_report
from ptxas_report import ROOT

GOLDEN = ROOT / "tests/cuda/sass_budgets.csv"
TARGET = "tilefold_kernels_sm90"
FIELDS = ["kernel", "r2ur"]
AT_A_TIME = 2
UPDATE = ("A change that is meant: scripts/sass_check.py --update, commit "
          "tests/cuda/sass_budgets.csv, and say in docs/kernels/forward_sm90.md what it gains.")

FUNCTION = re.compile(r"\s*Function : (\w+)")
INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+ +)?([A-Z][A-Z0-9_.]*) *([^;]*?) *;")
ADDRESS = re.compile(r"\b0x([0-9a-f]+)$")
# "sm90 bf16 d192-128 128x112 formula": head dimension, keys of a tile, whether it is a range kernel.
NAME = re.compile(r"sm90 \w+ d(\d+)(?:-\d+)? \d+x(\d+)( formula)?$")


@dataclasses.dataclass
class Instruction:
    address: int
    guarded: bool  # a predicate may skip it
    name: str  # "HGMMA.64x128x16.F32.BF16"
    operands: str

    def target(self):
        """Where a branch goes, or -1."""
        found = ADDRESS.search(self.operands) if self.name.startswith("BRA") else None
        return int(found.group(1), 16) if found else -1

    def falls_through(self):
        """Whether the next one may follow. "BRA P1, 0x40" and "BRA.DIV UR8, 0x40" ask a question."""
        if self.guarded:
            return True
        if self.name == "BRA":
            return not self.operands.startswith("0x")
        return not self.name.startswith(("EXIT", "RET"))


def parse(listing):
    """Symbol -> its instructions, of what `cuobjdump -sass` prints."""
    functions, code = {}, None
    for line in listing.splitlines():
        if match := INSTRUCTION.match(line):
            address, guard, name, operands = match.groups()
            code.append(Instruction(int(address, 16), guard is not None, name, operands))
        elif match := FUNCTION.match(line):
            code = functions.setdefault(match.group(1), [])
    return functions


def reaches(code, place, goal, avoided):
    """Whether a way from the entry to instruction `goal` passes by instruction `avoided`."""
    seen, open_ends = set(), [0]
    while open_ends:
        at = open_ends.pop()
        if at in seen or at == avoided or at >= len(code):
            continue
        if at == goal:
            return True
        seen.add(at)
        if code[at].falls_through():
            open_ends.append(at + 1)
        if code[at].target() in place:
            open_ends.append(place[code[at].target()])
    return False


def count(code, *names):
    return sum(instruction.name.startswith(names) for instruction in code)


def main_loop(code, products):
    """The instructions of the shortest loop with at least `products` HGMMA; none: [].

    A branch back closes a loop where every way to it leads through its target. The others return
    from waits that ptxas moved behind the kernel's end, and span whatever lies between.
    """
    place = {instruction.address: at for at, instruction in enumerate(code)}
    spans = []
    for end, instruction in enumerate(code):
        begin = place.get(instruction.target(), end + 1)
        if begin <= end and count(code[begin:end + 1], "HGMMA") >= products:
            spans.append((end - begin, begin, end))
    for _, begin, end in sorted(spans):
        if begin == 0 or not reaches(code, place, end, begin):
            return code[begin:end + 1]
    return []


def between_products(loop):
    """The instructions between the first and the last HGMMA."""
    products = [at for at, instruction in enumerate(loop) if instruction.name.startswith("HGMMA")]
    return loop[products[0]:products[-1]] if products else []


@dataclasses.dataclass
class Kernel:
    """What the check reads of one kernel's code."""
    name: str
    is_range: bool
    instructions: int
    tma_loads: int
    products: int
    loop: int  # instructions of the main loop; 0: it has none
    loop_products: int
    r2ur: int  # between the first and the last product of the main loop
    exponentials: int  # and reciprocals and logarithms: MUFU
    spills: int


def kernel_of(name, code):
    head_dim, tile_keys, formula = NAME.match(name).groups()
    loop = main_loop(code, int(head_dim) // 16 + int(tile_keys) // 16)
    return Kernel(name, formula is None, len(code), count(code, "UTMALDG"), count(code, "HGMMA"),
                  len(loop), count(loop, "HGMMA"), count(between_products(loop), "R2UR"),
                  count(loop, "MUFU"), count(loop, "STL", "LDL"))


def breaches(kernels, budgets, same_compiler):
    for kernel in kernels:
        if kernel.products == 0:
            yield f"{kernel.name}: no HGMMA, its products are not wgmma's"
        if kernel.tma_loads == 0:
            yield f"{kernel.name}: no UTMALDG, it loads nothing by TMA"
        if kernel.loop == 0:
            yield f"{kernel.name}: no loop holds both of its products"
        if kernel.spills > 0:
            yield f"{kernel.name}: {kernel.spills} LDL and STL in the main loop, it must have none"
        if not kernel.is_range:
            continue
        if kernel.name not in budgets:
            yield f"{kernel.name}: it has no budget"
        elif kernel.r2ur > budgets[kernel.name] and same_compiler:
            yield (f"{kernel.name}: {kernel.r2ur} R2UR between the products of the main loop, "
                   f"budget {budgets[kernel.name]}")
    names = {kernel.name for kernel in kernels if kernel.is_range}
    for name in budgets:
        if name not in names:
            yield f"{name}: it has a budget and is not compiled"


def table(kernels):
    lines = [f"{'kernel':34} {'code':>6} {'HGMMA':>6} {'loop':>6} {'HGMMA':>6} {'R2UR':>5} "
             f"{'MUFU':>5} {'spills':>6}"]
    for k in kernels:
        lines.append(f"{k.name:34} {k.instructions:6} {k.products:6} {k.loop:6} "
                     f"{k.loop_products:6} {k.r2ur:5} {k.exponentials:5} {k.spills:6}")
    lines.append("code: instructions of the kernel; all columns from loop on are of its main loop")
    return "\n".join(lines)


def read_golden(path=GOLDEN):
    """(nvcc, name -> R2UR)."""
    nvcc, rows = budget_file.read(path)
    return nvcc, {row["kernel"]: int(row["r2ur"]) for row in rows}


def write_golden(nvcc, kernels, path=GOLDEN):
    rows = [{"kernel": k.name, "r2ur": k.r2ur} for k in kernels if k.is_range]
    budget_file.write(path, nvcc, "sass_check.py", FIELDS, rows)


def disassembler():
    """The folder of cuobjdump and nvdisasm, or none."""
    found = subprocess.run([ROOT / "scripts/find_disassembler.sh"], stdout=subprocess.PIPE,
                           text=True, check=False)
    return Path(found.stdout.strip()) if found.returncode == 0 else None


def disassembled(folder, target_object):
    # cuobjdump starts the nvdisasm that PATH names.
    environment = dict(os.environ, PATH=f"{folder}:{os.environ.get('PATH', '')}")
    text = subprocess.run([folder / "cuobjdump", "-sass", target_object], check=True,
                          capture_output=True, text=True, env=environment).stdout
    return parse(text)


def kernels_of(build, folder):
    """Of a build folder, in the registry's order."""
    objects = [target_object for target, _, target_object, _ in ptxas_report.commands(build)
               if target == TARGET]
    for target_object in objects:
        if not target_object.exists():
            raise ptxas_report.NoReport(f"{target_object} is missing: build target {TARGET} first")
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        parts = list(pool.map(lambda target_object: disassembled(folder, target_object), objects))
    functions = dict(collections.ChainMap(*parts))
    names = ptxas_report.demangled(list(functions))
    codes = {names[symbol]: code for symbol, code in functions.items()}
    listed = {function: kernel.name for function, kernel in ptxas_report.listing(build).items()
              if kernel.family == "sm90"}
    if strangers := sorted(codes.keys() ^ listed.keys()):
        raise ptxas_report.NoReport(f"compiled or listed, not both: {', '.join(strangers)}")
    return [kernel_of(name, codes[function]) for function, name in listed.items()]


def report(kernels, found, golden_nvcc, nvcc):
    print(table(kernels))
    for breach in found:
        print(f"error: {breach}")
    if found:
        print(UPDATE)
        return 1
    if nvcc != golden_nvcc:
        print(f"skipped: R2UR of kernels: budgets are nvcc {golden_nvcc}'s, this is {nvcc}")
    print(f"machine code of {len(kernels)} sm90 kernels as it must be, nvcc {nvcc}")
    return 0


def main():
    build, update = budget_file.options(__doc__.splitlines()[0])
    folder = disassembler()
    if folder is None:
        print("skipped: machine code of the sm90 kernels: no cuobjdump and nvdisasm, neither "
              "installed nor to be had from PyPI")
        sys.exit(1 if update else 0)
    try:
        kernels = kernels_of(build, folder)
    except ptxas_report.NoReport as missing:
        sys.exit(f"error: {missing}")
    nvcc = ptxas_report.compiler_version(build)
    if update:
        write_golden(nvcc, kernels)
    golden_nvcc, budgets = read_golden()
    found = list(breaches(kernels, budgets, nvcc == golden_nvcc))
    sys.exit(report(kernels, found, golden_nvcc, nvcc))


if __name__ == "__main__":
    main()
