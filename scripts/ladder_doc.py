#!/usr/bin/env python3
"""Fills the measured blocks of docs/ladder.md from CSV files that `tilefold ladder` and the peers wrote.

    scripts/ladder_doc.py [--results bench/results] [--check]

Reads ladder*.csv, triton*.csv and torch_sdpa*.csv there. A block stands between the comments
`<!-- ladder NAME: begin -->` and `<!-- ladder NAME: end -->`; NAME is `table` or `speedups`. Without
results a block says that nothing has been measured. --check writes nothing and fails where the page and
the results differ.
"""
import argparse
import csv
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/ladder.md"
UNMEASURED = "*Not yet measured on hardware.*"
STORY = ["naive", "v1", "tile", "v2", "half_f16", "half_bf16", "sm80_f16", "sm80_bf16"]


def read_rows(folder, pattern):
    """All rows of the matching files, and their comment lines without those of refusals."""
    rows, comments = [], []
    for path in sorted(folder.glob(pattern)):
        lines = path.read_text().splitlines()
        data = [line for line in lines if not line.startswith("#")]
        comments += [line[2:] for line in lines[:3] if line.startswith("#")]
        rows += [row for row in csv.DictReader(data)]
    return rows, comments


def shape_of(row):
    return int(row["hdim"]), int(row["causal"]), int(row["seqlen_q"])


def by_shape(rows, name):
    """{shape: row} of the rung or peer `name`, those with a time."""
    chosen = {}
    for row in rows:
        if row.get("rung", row.get("peer")) == name and float(row["ms"]) > 0:
            chosen[shape_of(row)] = row
    return chosen


def megabytes(text):
    return f"{float(text) / 1e6:,.0f}"


def table(ladder, triton, comments):
    """A row a rung at 4096 tokens, head dimension 64, all keys."""
    at = (64, 0, 4096)
    lines = [f"Measured: {comment}" for comment in comments]
    lines += ["", "| rung | type | ms | TFLOPS | workspace MB | device memory at best MB | asked of L2 MB | "
              "largest error | lines |", "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    names = list(dict.fromkeys(row["rung"] for row in ladder))
    for name in sorted(names, key=lambda n: STORY.index(n) if n in STORY else len(STORY)):
        row = by_shape(ladder, name).get(at)
        if row is None:
            lines.append(f"| {name} | | not measured | | | | | | |")
            continue
        lines.append(f"| {name} | {row['dtype']} | {float(row['ms']):.3f} | {float(row['tflops']):.2f} | "
                     f"{megabytes(row['workspace_bytes'])} | {megabytes(row['once_bytes'])} | "
                     f"{megabytes(row['asked_bytes'])} | {float(row['max_error']):.1e} | {row['lines']} |")
    for dtype in ("f16", "bf16"):
        row = by_shape([r for r in triton if r["dtype"] == dtype], "triton").get(at)
        if row is not None:
            lines.append(f"| triton | {dtype} | {float(row['ms']):.3f} | {float(row['tflops']):.2f} | 0 | | | "
                         f"{float(row['max_error']):.1e} | {row['lines']} |")
    return "\n".join(lines).strip()


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def speedups(ladder, triton, peers):
    """How each rung stands to the one before it, from 4096 tokens up, and the top rung to its peers."""
    lines = ["| rung | over | geometric mean | smallest | largest | shapes |", "|---|---|---:|---:|---:|---:|"]

    def compare(name, rows, other_name, other_rows, shortest):
        ours, theirs = by_shape(rows, name), by_shape(other_rows, other_name)
        ratios = [float(theirs[s]["ms"]) / float(ours[s]["ms"])
                  for s in ours if s in theirs and s[2] >= shortest]
        if ratios:
            lines.append(f"| {name} | {other_name} | {geometric_mean(ratios):.2f} | {min(ratios):.2f} | "
                         f"{max(ratios):.2f} | {len(ratios)} |")

    for before, name in zip(STORY, STORY[1:]):
        compare(name, ladder, before, ladder, 4096)
    compare("sm80_f16", ladder, "triton", [r for r in triton if r["dtype"] == "f16"], 512)
    for peer in ("fa2", "cudnn"):
        compare("sm80_bf16", ladder, peer, [r for r in peers if r["dtype"] == "bf16"], 512)
    return "\n".join(lines) if len(lines) > 2 else UNMEASURED


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    ladder, comments = read_rows(args.results, "ladder*.csv")
    triton, _ = read_rows(args.results, "triton*.csv")
    peers, _ = read_rows(args.results, "torch_sdpa*.csv")
    blocks = {"table": table(ladder, triton, comments) if ladder else UNMEASURED,
              "speedups": speedups(ladder, triton, peers) if ladder else UNMEASURED}
    before = PAGE.read_text()
    after = before
    for name, text in blocks.items():
        pattern = re.compile(f"(<!-- ladder {name}: begin -->\n).*?(<!-- ladder {name}: end -->)", re.S)
        if not pattern.search(after):
            sys.exit(f"{PAGE.relative_to(ROOT)} has no block '{name}'")
        after = pattern.sub(lambda match: match[1] + text + "\n" + match[2], after)
    if args.check and after != before:
        sys.exit(f"{PAGE.relative_to(ROOT)} does not say what {args.results} holds: run scripts/ladder_doc.py")
    if not args.check:
        PAGE.write_text(after)


if __name__ == "__main__":
    main()
