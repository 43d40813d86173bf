#!/usr/bin/env python3
"""Fills the measured block of docs/formulas.md from CSV files.

    scripts/run_time_doc.py [--results bench/results] [--check]

Reads there, of files whose names hold these words, the newest by name: `run-time` (`tilefold bench forward --set
run-time --csv`) and `flex` (bench/peers/flex_attention.py, in the same run). The block stands between
`<!-- run-time: begin -->` and `<!-- run-time: end -->`. --check writes nothing and fails where page and results differ.
"""
import argparse
import pathlib
import sys

import page
from ladder_doc import ROOT, geometric_mean, newest

DIMS = ("64", "128")


def by_shape(rows):
    """{(formula, head dimension): row}; the built-in causal mask is the formula ''."""
    return {(row["op"].removeprefix("forward").removeprefix(" text ").strip(), row["hdim"]): row for row in rows}


def table(ours, flex):
    lines = ["| formula | D | ms | FlexAttention, ms | FlexAttention / tilefold | first result, s | FlexAttention's, s |",
             "|---|---|---|---|---|---|---|"]
    ratios = []
    for dim in DIMS:
        for (name, of), row in ours.items():
            if of != dim or not name:
                continue
            peer = flex[name, dim]
            ratios.append(float(peer["ms"]) / float(row["ms"]))
            lines.append(f"| {name} | {dim} | {float(row['ms']):.3f} | {float(peer['ms']):.3f} | {ratios[-1]:.2f} | "
                         f"{float(row['first_result_ms']) / 1e3:.1f} | {float(peer['first_result_ms']) / 1e3:.1f} |")
    causal = [float(ours["causal", d]["ms"]) / float(ours["", d]["ms"]) for d in DIMS]
    return lines, (f"Geometric mean {geometric_mean(ratios):.2f} (least {min(ratios):.2f}). Causal as a formula takes "
                   f"{causal[0]:.3f} (D = 64) and {causal[1]:.3f} (D = 128) of the built-in's time.")


def block(results):
    rows, comments = newest(results, "run-time")
    peer_rows, peer_comments = newest(results, "flex")
    if not rows or not peer_rows:
        sys.exit(f"{results} has no file named run-time or none named flex")
    lines, summary = table(by_shape(rows), by_shape(peer_rows))
    head = (f"{comments[0]}; `{comments[1]}`, `python3 bench/peers/flex_attention.py` ({peer_comments[0].split(',')[0]}) "
            "in the same run. bf16, 16384 tokens in sequences of 8192; tree: 32 sequences of 64 drafts over 4096 keys:")
    return "\n".join([head, "", *lines, "", summary])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    path = ROOT / "docs/formulas.md"
    text = page.with_block(path, path.read_text(), "run-time", block(args.results))
    page.settle({path: text}, args.check, args.results, "run_time_doc.py")


if __name__ == "__main__":
    main()
