#!/usr/bin/env python3
"""Fills the tables of registers, and the counts of spills, of docs/ from tests/cuda/kernel_budgets.csv.

    scripts/register_doc.py [--check]

Tables stand between `<!-- registers: begin -->` and `<!-- registers: end -->` in docs/kernels/sm80.md and
docs/kernels/forward_sm90.md. Elsewhere in docs/ a kernel's spills are told in these words, on one line, in
which the architectures and the numbers are written anew:

    sm80 f16 d128 128x64 on sm_80 and sm_90a: 24 and 36 bytes of spills

--check writes nothing and fails where a page and the budgets differ.
"""
import argparse
import re
import sys

import page
from kernel_budgets import read_golden
from ptxas_report import ROOT

ARCHITECTURES = ["80", "90a", "100a"]
TYPES = ["bf16", "f16"]
TILE = re.compile(r"\{(\d+), (\d+), (\d+), (\d+), (\d+), (\d+), QueryHome::(\w+), \d+(, Share::columns)?\}")
SPILLS = re.compile(r"(?P<kernel>sm\d\d(?:_\w+)? [\w -]*?) on (?P<archs>sm_\w+(?:(?:, | and )sm_\w+)*): "
                    r"(?P<bytes>\d[\d, and]*) bytes of spills")


def listed(words):
    words = [str(word) for word in words]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


class Budgets:
    def __init__(self):
        golden = read_golden()
        self.rows, self.nvcc = golden.rows, golden.nvcc

    def both(self, kernel, arch, field):
        """The figure of bf16 and of f16; once where it is the same."""
        figures = [self.rows[kernel.format(t), arch][field] for t in TYPES]
        return str(figures[0]) if figures[0] == figures[1] else f"{figures[0]} / {figures[1]}"

    def sm80(self):
        """A row a tile of the registry, which knows stages and where Q lives."""
        source = (ROOT / "src/cuda/kernels/sm80/registry.hpp").read_text()
        lines = [f"`nvcc {self.nvcc} -Xptxas -v`; two figures are bf16 / f16. 128 threads.", "",
                 "| Dqk | Dv | formula | tile | stages | Q | registers 8.0 | 9.0a | 10.0a | shared bytes |",
                 "|---|---|---|---|---|---|---|---|---|---|"]
        for formula in ("plain", "changed"):
            table = re.search(formula + r"_tiles\[\] = \{(.*?)\n\};", source, re.S)[1]
            for head, value, warps, blocks, keys, stages, query, columns in TILE.findall(table):
                rows = 16 * int(warps) * int(blocks)
                kernel = (f"sm80 {{}} d{head}{'-' + value if value != head else ''} {'columns ' if columns else ''}"
                          f"{rows}x{keys}{' formula' if formula == 'changed' else ''}")
                registers = " | ".join(self.both(kernel, arch, "registers") for arch in ARCHITECTURES)
                lines.append(f"| {head} | {value} | {formula} | {rows} x {keys}{', columns' if columns else ''} | "
                             f"{stages} | {query} | {registers} | "
                             f"{self.both(kernel, '90a', 'dynamic_shared_bytes')} |")
        return lines

    def sm90(self):
        lines = [f"What `nvcc {self.nvcc}` makes of them, bf16 and f16 alike unless two figures stand (bf16 / f16); registers "
                 "are those at launch:", "",
                 "| kernel | registers | bytes of spills | shared bytes |", "|---|---|---|---|"]
        for (kernel, arch) in self.rows:
            if kernel.startswith("sm90 bf16 "):
                both = kernel.replace("bf16", "{}", 1)
                figures = " | ".join(self.both(both, arch, field) for field in
                                     ("registers", "spill_bytes", "dynamic_shared_bytes"))
                lines.append(f"| {kernel.removeprefix('sm90 bf16 ')} | {figures} |")
        return lines

    def spills(self, kernel):
        """{architecture: bytes} of those that spill."""
        return {arch: self.rows[kernel, arch]["spill_bytes"] for arch in ARCHITECTURES
                if (kernel, arch) in self.rows and self.rows[kernel, arch]["spill_bytes"]}


def with_spills(path, text, budgets):
    def sentence(match):
        found = budgets.spills(match["kernel"])
        if not found:
            sys.exit(f"{path}: '{match[0]}': by tests/cuda/kernel_budgets.csv there are none")
        archs, figures = listed(f"sm_{arch}" for arch in found), list(found.values())
        return f"{match['kernel']} on {archs}: {listed(figures)} bytes of spills"
    return SPILLS.sub(sentence, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    budgets = Budgets()
    tables = {"docs/kernels/sm80.md": budgets.sm80(), "docs/kernels/forward_sm90.md": budgets.sm90()}
    files = {}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = str(path.relative_to(ROOT))
        files[path] = with_spills(name, path.read_text(), budgets)
        if name in tables:
            files[path] = page.with_block(name, files[path], "registers", "\n".join(tables[name]))
    page.settle(files, args.check, "tests/cuda/kernel_budgets.csv", "register_doc.py")


if __name__ == "__main__":
    main()
