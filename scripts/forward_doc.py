#!/usr/bin/env python3
"""Fills the measured blocks of docs/kernels/forward_sm90.md and the Hopper rows of README.md from CSV files.

    scripts/forward_doc.py [--results bench/results] [--check]

Reads there, of files whose names hold these words, the newest by name: `forward` (`tilefold bench forward --csv`
and bench/peers/torch_sdpa.py, one run), `peers` (other libraries, in a run of their own) and `formulas` (`tilefold
bench forward --set formulas --csv`). A peer of that run is
compared through cuDNN, which stood in both: (ours / cuDNN) / (peer / cuDNN). A block stands between
`<!-- forward NAME: begin -->` and `<!-- forward NAME: end -->`; NAME is grid, means, heads, host or formulas. In the README it is
the row that begins as ROWS says. --check writes nothing and fails where a page and the results differ.
"""
import argparse
import pathlib
import sys

import page
from ladder_doc import ROOT, geometric_mean, newest

LENGTHS = [512, 1024, 2048, 4096, 8192, 16384]
# README.md: how a row begins -> which ratio it holds.
ROWS = {"| Hopper kernel / cuDNN": "cudnn", "| Hopper kernel / FlashAttention-3": "fa3",
        "| Hopper kernel / PyTorch's FlashAttention-2": "fa2"}


def key_of(row):
    return tuple(int(row[name]) for name in ("hdim", "causal", "seqlen_q"))


def grid_of(rows, peer, op):
    """{(head dimension, causal, length): row} of 16384 tokens and hidden size 2048."""
    return {key_of(row): row for row in rows
            if row["peer"] == peer and row["op"] == op and row["mode"] in ("queued", "burst10")
            and row["dtype"] == "bf16" and int(row.get("window") or 0) == 0
            and int(row["heads_q"]) == int(row["heads_kv"])
            and int(row["batch"]) * int(row["seqlen_q"]) == 16384
            and int(row["heads_q"]) * int(row["hdim"]) == 2048}


def ratio(ours, other):
    """{shape: speed of ours over the other's}."""
    return {shape: float(other[shape]["ms"]) / float(ours[shape]["ms"]) for shape in ours if shape in other}


class Forward:
    def __init__(self, results):
        self.rows, self.comments = newest(results, "forward")
        self.peer_rows, self.peer_comments = newest(results, "peers")
        self.formula_rows, self.formula_comments = newest(results, "formulas")
        self.ours = grid_of(self.rows, "tilefold", "forward")
        self.cudnn = grid_of(self.rows, "pytorch cudnn", "forward")
        there = {peer: grid_of(self.peer_rows, peer, "fwd") for peer in ("cudnn", "fa3")}
        to_fa3 = ratio(there["fa3"], there["cudnn"])  # FlashAttention-3 over cuDNN
        to_cudnn = ratio(self.ours, self.cudnn)
        self.ratios = {"cudnn": to_cudnn, "fa2": ratio(self.ours, grid_of(self.rows, "pytorch fa2", "forward")),
                       "fa3": {s: r / to_fa3[s] for s, r in to_cudnn.items() if s in to_fa3}}
        shapes = {name: len(values) for name, values in self.ratios.items()}
        if set(shapes.values()) != {36}:
            sys.exit(f"{results}: 36 shapes are wanted of each, not {shapes}")

    def mean(self, name):
        return geometric_mean(self.ratios[name].values())

    def least(self, name):
        return min(self.ratios[name].values())

    def grid(self):
        """The table of 36 points."""
        lines = [f"{self.comments[0]}; {', '.join(f'`{c.strip()}`' for c in self.comments[1].split(';'))}. "
                 "bf16, 16384 tokens, hidden size 2048, TFLOPS:", "",
                 "| D | mask | | " + " | ".join(map(str, LENGTHS)) + " |", "|---" * (3 + len(LENGTHS)) + "|"]
        for dim in (64, 128, 256):
            for causal in (0, 1):
                head = f"| {dim} | {'causal' if causal else 'full'} |"
                shapes = [(dim, causal, length) for length in LENGTHS]
                for title, text in (("sm90", lambda s: f"{float(self.ours[s]['rate']):.0f}"),
                                    ("cuDNN", lambda s: f"{float(self.cudnn[s]['rate']):.0f}"),
                                    ("sm90 / cuDNN", lambda s: f"{self.ratios['cudnn'][s]:.2f}"),
                                    ("sm90 / FlashAttention-3", lambda s: f"{self.ratios['fa3'][s]:.2f}")):
                    lines.append(f"{head} {title} | " + " | ".join(map(text, shapes)) + " |")
                    head = "| | |"
        return "\n".join(lines)

    def means(self):
        better = geometric_mean([min(self.ratios["cudnn"][s], r) for s, r in self.ratios["fa3"].items()])
        return (f"Geometric means over the 36 points: {self.mean('cudnn'):.3f} of cuDNN (least "
                f"{self.least('cudnn'):.2f}), {self.mean('fa3'):.3f} of FlashAttention-3 (least "
                f"{self.least('fa3'):.2f}), {better:.3f} of the better of the two; {self.mean('fa2'):.2f} of "
                "PyTorch's FlashAttention-2.")

    def flashinfer(self, row):
        same = [p for p in self.peer_rows if p["peer"] == "flashinfer" and p["mode"] == row["mode"]
                and all(p[n] == row[n] for n in ("batch", "heads_q", "heads_kv", "hdim", "seqlen_q", "causal"))]
        return f"FlashInfer, in the run of the peers: {float(same[0]['rate']):.0f}" if same else ""

    def heads(self):
        """What stands outside the grid: grouped heads, windows, ragged lengths."""
        lines = ["| D = 128 | heads | batch | TFLOPS | beside |", "|---|---|---|---|---|"]
        grid = list(self.ours.values())
        rest = [row for row in self.rows if row["peer"] == "tilefold" and row not in grid]
        times = {int(row["window"]): float(row["ms"]) for row in rest if row["seqlen_q"] == "32768"}
        for row in rest:
            causal, window = int(row["causal"]), int(row["window"])
            name, beside = "causal" if causal else "full", self.flashinfer(row)
            if row["op"] == "forward_ragged":
                name += ", 65536 tokens, lengths log-uniform 16 to 16384"
            elif window:
                name = f"window of {window + 1}, {row['seqlen_q']}"
                beside = f"{times[window] / times[0]:.3f} of causal's time"
            else:
                name += f", {row['seqlen_q']}" + (", one launch at a time" if row["mode"] == "single" else "")
            lines.append(f"| {name} | {row['heads_q']}/{row['heads_kv']} | {row['batch']} | "
                         f"{float(row['rate']):.0f} | {beside} |")
        return "\n".join(lines)


    def host(self):
        """Microseconds of the host, least, median and most of the points."""
        ours = [row for row in self.rows if row["peer"] == "tilefold"]
        text = []
        for name in ("plan", "run"):
            times = sorted(float(row[f"{name}_us"]) for row in ours)
            text.append(f"{name}() {times[0]:.1f} to {times[-1]:.1f} us (median {times[len(times) // 2]:.1f})")
        return f"Host time in that run: {', '.join(text)}."

    def formulas(self):
        """Time a visible tile of compiled formulas, over the built-in causal mask's of the same run."""
        built_in = {(r["hdim"], r["seqlen_q"]): float(r["rate"]) for r in self.formula_rows if r["op"] == "forward"}
        shapes = sorted(built_in, key=lambda shape: tuple(map(int, shape)))
        lines = [f"{self.formula_comments[0]}; `{self.formula_comments[1]}`. bf16, 16384 tokens. Time a visible tile "
                 "of 128 x 128 over that of the built-in causal mask:", "",
                 "| formula | " + " | ".join(f"D = {d}, {s}" for d, s in shapes) + " |", "|---" * (1 + len(shapes)) + "|"]
        rates = {}
        for row in self.formula_rows:
            rates.setdefault(row["op"], {})[row["hdim"], row["seqlen_q"]] = float(row["rate"])
        for name, of in rates.items():
            if name != "forward":
                lines.append(f"| {name.split()[1]} | " + " | ".join(f"{built_in[s] / of[s]:.2f}" for s in shapes) + " |")
        return "\n".join(lines)


def page_of(forward):
    path = ROOT / "docs/kernels/forward_sm90.md"
    text = path.read_text()
    for name in ("grid", "means", "heads", "host", "formulas"):
        text = page.with_block(path, text, f"forward {name}", getattr(forward, name)())
    return path, text


def readme_of(forward):
    path = ROOT / "README.md"
    lines = path.read_text().splitlines()
    for start, name in ROWS.items():
        found = [i for i, line in enumerate(lines) if line.startswith(start)]
        if len(found) != 1:
            sys.exit(f"{path} must have one row that begins with '{start}'")
        title = lines[found[0]].split("|")[1]
        lines[found[0]] = f"|{title}| {forward.mean(name):.2f} ({forward.least(name):.2f}) |"
    return path, "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    forward = Forward(args.results)
    page.settle(dict([page_of(forward), readme_of(forward)]), args.check, args.results, "forward_doc.py")


if __name__ == "__main__":
    main()
