#!/usr/bin/env python3
"""Fits the measured constants of src/cuda/launch/kernel_costs.cpp to committed figures.

    scripts/fit_costs.py [--results bench/results]

Reads the newest files whose names hold `forward` and `sm80-share` and prints, for each family and head dimension,
the FLOPs a cycle, the cycles of an item and of a cut tile that come closest to all points (least sum of squared
logarithms of predicted over measured), and the least and largest ratio left. The model is that of src/plan/cost.hpp,
with every row tile counted. The search is random with a fixed seed: the same files give the same constants.
"""
import argparse
import math
import pathlib
import random

from ladder_doc import ROOT, newest

CLOCK, MULTIPROCESSORS, LAUNCH = 1.98e9, 132, 3e-6  # plan/cost.hpp: h200; plan/cost.cpp: launch_seconds
# (family, head dimension): rows and keys of a tile, blocks a multiprocessor; the registries of both families.
SHAPES = {("sm90", 64): (192, 128, 1), ("sm90", 128): (128, 128, 1), ("sm90", 256): (128, 80, 1),
          ("sm80", 64): (128, 128, 2), ("sm80", 128): (128, 64, 2), ("sm80", 256): (64, 64, 2)}


def points_of(results):
    """{(family, head dimension): [(batch, heads, length, causal, seconds)]} of heads that share no keys."""
    points = {shape: [] for shape in SHAPES}
    for row in newest(results, "forward")[0]:
        if row["peer"] == "tilefold" and row["op"] == "forward" and row["window"] == "0":
            points["sm90", int(row["hdim"])].append(
                (int(row["batch"]), int(row["heads_q"]), int(row["seqlen_q"]), row["causal"] == "1",
                 1e-3 * float(row["ms"])))
    for row in newest(results, "sm80-share")[0]:
        if row["kernel"].endswith("*"):
            points["sm80", int(row["head_dim"])].append(
                (int(row["batch"]), int(row["heads"]), int(row["length"]), row["causal"] == "1",
                 1e-3 * float(row["ms"])))
    return points


def tiles_of(length, causal, rows, keys):
    """Row tiles; visited key tiles of a mean and of the longest one; cut ones of a mean one."""
    count = -(-length // rows)
    visited = [-(-(min(length, (t + 1) * rows) if causal else length) // keys) for t in range(count)]
    cut = [v - (t * rows // keys if causal else length // keys) for t, v in enumerate(visited)]
    return count, sum(visited) / count, max(visited), sum(cut) / count


def predicted(point, shape, constants):
    batch, heads, length, causal, _ = point
    rows, keys, blocks = shape
    tile, item, cut_cycles = constants
    count, mean, longest, cut = tiles_of(length, causal, rows, keys)
    waves = -(-batch * heads * count // (MULTIPROCESSORS * blocks))
    own = item + cut_cycles * cut
    return LAUNCH + max(own + tile * longest, waves * (own + tile * mean)) / CLOCK


def fit(points, shape):
    """Tile, item and cut cycles, and the ratios they leave."""
    draw = random.Random(1)

    def ratios(constants):
        return [predicted(p, shape, constants) / p[4] for p in points]

    def loss(constants):
        return sum(math.log(r) ** 2 for r in ratios(constants))

    best = [3000.0, 8000.0, 300.0]
    least, width = loss(best), 0.3
    for _ in range(6000):
        tried = [x * math.exp(draw.gauss(0, width)) for x in best]
        found = loss(tried)
        if found < least:
            best, least, width = tried, found, min(0.3, 1.1 * width)
        else:
            width = max(1e-3, 0.995 * width)
    return best, ratios(best)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    points = points_of(parser.parse_args().results)
    print("family   D  FLOPs/cycle    item    cut  points  least  most")
    for (family, dim), shape in SHAPES.items():
        (tile, item, cut), ratios = fit(points[family, dim], shape)
        flops = 4 * shape[0] * shape[1] * dim * shape[2] / tile
        print(f"{family:6} {dim:3} {flops:12.0f} {item:7.0f} {cut:6.0f} {len(ratios):7} {min(ratios):6.2f} "
              f"{max(ratios):5.2f}")


if __name__ == "__main__":
    main()
