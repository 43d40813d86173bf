#!/usr/bin/env python3
"""Fills the measured blocks of docs/ladder.md and draws docs/images/ladder.svg from CSV files.

    scripts/ladder_doc.py [--results bench/results] [--page docs/ladder.md] [--check]

Reads there, of files whose names hold these words, the newest by name: `ladder` (`tilefold ladder --sweep
--csv`), `counters` (`tilefold ladder --profile --counters`), `triton` and `torch_sdpa`. A block stands between
`<!-- ladder NAME: begin -->` and `<!-- ladder NAME: end -->`; NAME is chart, table, speedups, traffic or
counters. Without results a block says that nothing has been measured. --check writes nothing and fails
where the page and the results differ.
"""
import argparse
import csv
import math
import pathlib
import re

import page

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNMEASURED = "*Not yet measured on hardware.*"
# A rung and the one it is held against: the story, then the same steps in bfloat16.
STORY = ["naive", "v1", "tile", "v2", "half_f16", "sm80_f16", "sm90_minimal_f16", "sm90_f16"]
STEPS = list(zip(STORY[1:], STORY)) + [("sm80_bf16", "half_bf16"), ("sm90_minimal_bf16", "sm80_bf16"),
                                         ("sm90_bf16", "sm90_minimal_bf16")]
COLOURS = ["#999999", "#8fb8de", "#5f9e54", "#e69138", "#c27ba0", "#3d6fb4", "#20324d", "#000000"]
AT = (64, 0, 4096)  # head dimension, causal, length: the shape of the tables


def read_results(path):
    """(comment lines, rows) of a file of bench/results."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return [line for line in lines if line.startswith("#")], list(rows)


def newest(folder, word, without=()):
    """Rows and comments of the newest file of this kind."""
    names = [p for p in sorted(folder.glob("*.csv"))
             if word in p.name and not any(other in p.name for other in without)]
    if not names:
        return [], []
    comments, rows = read_results(names[-1])
    # Results name the tool; a page shows what can be typed.
    return rows, [re.sub(r"(^|; )tilefold ", r"\1build/tilefold ", line[2:]) for line in comments]


def shape_of(row):
    return int(row["hdim"]), int(row["causal"]), int(row["seqlen_q"])


def by_shape(rows, name, dtype=None):
    """{shape: row} of the rung or peer `name`, those with a time."""
    return {shape_of(row): row for row in rows
            if row.get("rung", row.get("peer")) == name and float(row["ms"]) > 0
            and dtype in (None, row["dtype"])}


def name_of(shape):
    return f"D {shape[0]}{' causal' if shape[1] else ''} {shape[2]}"


def megabytes(text):
    return f"{float(text) / 1e6:,.0f}"


def table(ladder, triton, comments):
    lines = [f"{comments[1] if len(comments) > 1 else ''}; `{comments[0] if comments else ''}`.",
             "4 sequences of 4096 tokens, 32 heads of 64, all keys visible:", "",
             "| rung | adds | type | ms | TFLOPS | workspace MB | largest error | lines |",
             "|---|---|---|---:|---:|---:|---:|---:|"]
    here = [row for row in ladder if shape_of(row) == AT]
    for row in here:
        if float(row["ms"]) > 0:
            figures = (f"{float(row['ms']):.3f} | {float(row['tflops']):.1f} | {megabytes(row['workspace_bytes'])} | "
                       f"{float(row['max_error']):.1e}")
        else:
            figures = f"{row['refused']} | | |"
        lines.append(f"| `{row['rung']}` | {row['adds']} | {row['dtype']} | {figures} | {row['lines']} |")
    for dtype in ("f16", "bf16"):
        row = by_shape(triton, "triton", dtype).get(AT)
        if row:
            lines.append(f"| `triton` | the compiler spells it out | {dtype} | {float(row['ms']):.3f} | "
                         f"{float(row['tflops']):.1f} | 0 | {float(row['max_error']):.1e}, small shapes | {row['lines']} |")
    if triton:
        lines += ["", "Largest error: over 24 rows of the measured shape. Triton's, which its script takes over every row "
                  "of small shapes, from 1 key on, where errors are larger, is not comparable."]
    skipped = sorted({(row["rung"], name_of(shape_of(row)), row["refused"]) for row in ladder
                      if row["refused"] and shape_of(row) != AT})
    lines += [""] + [f"Not measured: `{rung}` at {shape}: {why}." for rung, shape, why in skipped]
    return "\n".join(lines).strip()


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def comparison(name, rows, other, other_rows, shortest):
    ratios = {s: float(other_rows[s]["ms"]) / float(rows[s]["ms"])
              for s in rows if s in other_rows and s[2] >= shortest}
    if not ratios:
        return []
    values = ratios.values()
    behind = sorted((ratio, shape) for shape, ratio in ratios.items() if ratio < 1)
    where = ", ".join(f"{name_of(shape)} ({ratio:.2f})" for ratio, shape in behind[:4]) or "nowhere"
    if len(behind) > 4:
        where = f"{len(behind)} of {len(ratios)}, most at {where}"
    return [f"| `{name}` | {other} | {geometric_mean(values):.2f} | {min(values):.2f} | {max(values):.2f} | "
            f"{len(ratios)} | {where} |"]


def speedups(ladder, triton, peers):
    """How each rung stands to the one before it, from 4096 tokens up, and the top rungs to their peers."""
    lines = ["| rung | over | geometric mean | smallest | largest | shapes | behind at |",
             "|---|---|---:|---:|---:|---:|---|"]
    for name, before in STEPS:
        lines += comparison(name, by_shape(ladder, name), f"`{before}`", by_shape(ladder, before), 4096)
    for name, dtype in (("sm80_f16", "f16"), ("sm80_bf16", "bf16"), ("sm90_minimal_bf16", "bf16")):
        lines += comparison(name, by_shape(ladder, name), f"Triton, {dtype}",
                            by_shape(triton, "triton", dtype), 512)
    for name in ("sm80_bf16", "sm90_minimal_bf16", "sm90_bf16"):
        for peer, title in (("fa2", "FlashAttention-2"), ("cudnn", "cuDNN")):
            lines += comparison(name, by_shape(ladder, name), title, by_shape(peers, peer, "bf16"), 512)
    return "\n".join(lines) if len(lines) > 2 else UNMEASURED


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def traffic(ladder, counters, comments):
    lines = [f"Measured: {comments[0]}." if comments else "", "",
             "| rung | at best, derived MB | asked of the L2, derived MB | device memory, measured MB | "
             "measured / best |",
             "|---|---:|---:|---:|---:|"]
    for row in (row for row in ladder if shape_of(row) == AT):
        moved = [number(c["device_bytes"]) for c in counters if c["rung"] == row["rung"]]
        measured = sum(m for m in moved if m is not None) if moved and None not in moved else None
        tail = "| |" if measured is None else f"{megabytes(measured)} | {measured / float(row['once_bytes']):.2f} |"
        lines.append(f"| `{row['rung']}` | {megabytes(row['once_bytes'])} | {megabytes(row['asked_bytes'])} | {tail}")
    return "\n".join(lines).strip()


def counter_table(counters):
    lines = ["| rung | kernel | device memory MB | L2 hit % | tensor pipe % | barrier stalls | bank conflicts |",
             "|---|---|---:|---:|---:|---:|---:|"]

    def shown(text, digits):
        value = number(text)
        return text if value is None else f"{value:,.{digits}f}"

    for c in counters:
        moved = number(c["device_bytes"])
        lines.append(f"| `{c['rung']}` | `{c['kernel']}` | {'-' if moved is None else megabytes(moved)} | "
                     f"{shown(c['l2_hit_percent'], 1)} | {shown(c['tensor_pipe_percent'], 1)} | "
                     f"{shown(c['barrier_stalls'], 2)} | {shown(c['bank_conflicts'], 0)} |")
    return "\n".join(lines)


class Chart:
    """TFLOPS over the length, both axes logarithmic; a panel for each head dimension and mask."""
    PANEL_W, PANEL_H, LEFT, TOP = 420, 260, 46, 30

    def __init__(self, ladder, comments):
        self.rows = {name: by_shape(ladder, name) for name in STORY}
        shapes = sorted({s for rows in self.rows.values() for s in rows})
        self.panels = sorted({s[:2] for s in shapes})
        self.lengths = sorted({s[2] for s in shapes})
        rates = [float(r["tflops"]) for rows in self.rows.values() for r in rows.values()]
        self.low, self.high = math.log10(min(rates) / 1.3), math.log10(max(rates) * 1.3)
        self.title = comments[1] if len(comments) > 1 else ""

    def text(self, x, y, size, anchor, text):
        return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{text}</text>\n'

    def place(self, length, rate):
        first, last = math.log2(self.lengths[0]), math.log2(self.lengths[-1])
        across = (math.log2(length) - first) / max(last - first, 1)
        up = (math.log10(rate) - self.low) / (self.high - self.low)
        return (self.LEFT + across * (self.PANEL_W - self.LEFT - 24),
                self.TOP + (1 - up) * (self.PANEL_H - self.TOP - 40))

    def panel(self, which):
        title = f"head dimension {which[0]}, {'causal' if which[1] else 'all keys'}"
        out = self.text(self.LEFT, 20, 12, "start", title)
        for power in range(math.ceil(self.low), math.floor(self.high) + 1):
            x, y = self.place(self.lengths[0], 10 ** power)
            out += f'<line x1="{x:.1f}" x2="{self.PANEL_W - 24}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>\n'
            out += self.text(x - 6, y + 4, 10, "end", f"{10.0 ** power:g}")
        for length in self.lengths:
            out += self.text(self.place(length, 1)[0], self.PANEL_H - 24, 10, "middle", length)
        for name, colour in zip(STORY, COLOURS):
            points = [self.place(s[2], float(r["tflops"]))
                      for s, r in sorted(self.rows[name].items()) if s[:2] == which]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            out += f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>\n'
            out += "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>\n' for x, y in points)
        return out

    def draw(self):
        columns, head = 2, 66
        height = head + (len(self.panels) + 1) // columns * self.PANEL_H
        width = columns * self.PANEL_W
        out = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
               f'height="{height}" font-family="sans-serif" fill="#222">\n'
               '<rect width="100%" height="100%" fill="white"/>\n')
        out += self.text(12, 20, 15, "start", "The ladder: TFLOPS by sequence length")
        out += self.text(12, 37, 11, "start", self.title)
        x = 12.0
        for name, colour in zip(STORY, COLOURS):
            out += f'<rect x="{x:.1f}" y="46" width="10" height="10" fill="{colour}"/>\n'
            out += self.text(x + 14, 55, 11, "start", name)
            x += 34 + 6.4 * len(name)
        for i, which in enumerate(self.panels):
            at = f"{i % columns * self.PANEL_W},{head + i // columns * self.PANEL_H}"
            out += f'<g transform="translate({at})">\n{self.panel(which)}</g>\n'
        return out + "</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/ladder.md")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    ladder, comments = newest(args.results, "ladder", without=["counters"])
    counters, counted = newest(args.results, "counters")
    triton, _ = newest(args.results, "triton")
    peers, _ = newest(args.results, "torch_sdpa")
    blocks = dict.fromkeys(("chart", "table", "speedups", "traffic", "counters"), UNMEASURED)
    images = args.page.parent / "images"
    files = {}
    if ladder:
        files[images / "ladder.svg"] = Chart(ladder, comments).draw()
        blocks["chart"] = "![TFLOPS of each rung by sequence length](images/ladder.svg)"
        blocks["table"] = table(ladder, triton, comments)
        blocks["speedups"] = speedups(ladder, triton, peers)
        blocks["traffic"] = traffic(ladder, counters, counted)
    if counters:
        blocks["counters"] = counter_table(counters)
    files[args.page] = args.page.read_text()
    for name, text in blocks.items():
        files[args.page] = page.with_block(args.page, files[args.page], f"ladder {name}", text)
    page.settle(files, args.check, args.results, "ladder_doc.py")


if __name__ == "__main__":
    main()
