#!/usr/bin/env python3
"""Checks who includes whom, which third party stands where, and what no file may hold.

Dependencies point one way, downwards:

    apps bench > front > cpu cuda > plan > score core reference
        > include/tilefold > include/tilefold/score

and inside cuda: launch > jit > runtime.

tests may include everything. Prints one line a breach (file:line: what, and what it
must be) and exits with 1 if there is any.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Layer of a folder -> the folders that it may include, besides itself.
BASE = {"include/tilefold", "include/tilefold/score"}
CUDA = {"src/cuda", "src/cuda/jit", "src/cuda/runtime"}
LOWEST = BASE | {"src/core", "src/score", "src/reference"}
MAY_INCLUDE = {
    "include/tilefold/score": set(),
    "include/tilefold": {"include/tilefold/score"},
    "include/tilefold/cuda": BASE | {"src/cuda"},  # the door: of src/cuda what kernels read
    "src/core": LOWEST,
    "src/score": LOWEST,
    "src/reference": LOWEST,
    "src/plan": LOWEST,
    "src/cpu": LOWEST | {"src/plan"},
    "src/cuda/runtime": LOWEST | {"src/cuda"},  # of src/cuda what kernels read
    "src/cuda/jit": LOWEST | {"src/cuda", "src/cuda/runtime"},  # likewise
    "src/cuda": LOWEST | CUDA | {"src/plan", "include/tilefold/cuda"},
    "src/front": LOWEST | {"src/plan", "src/cpu", "src/cuda"},
    "apps": LOWEST | CUDA | {"src/plan", "src/cpu", "src/front", "tests", "bench"},
    "bench": LOWEST | CUDA | {"src/plan", "src/cpu", "src/front", "tests"},
    "examples": BASE | {"include/tilefold/cuda"},
}
# These include of src/cuda only what kernels read: a door, and what stands below the launches.
OF_KERNELS_ONLY = {"include/tilefold/cuda", "src/cuda/jit", "src/cuda/runtime"}
# apps and bench share the tests' one case list, and nothing else of the tests.
SHARED_TESTS = "tests/support/"

# What NVRTC reads on a machine without a toolkit: it includes itself only, no header of the toolkit,
# of the standard library or of another folder.
KERNEL_VISIBLE = re.compile(
    r"src/cuda/(tile|kernels)/.*|include/tilefold/score/.*|include/tilefold/fold\.hpp")

# First part of a third party's include path -> a pattern of the files that may include it.
TEXT_FILES = r"((src|apps|bench|tests)/.*\.cpp|apps/.*\.hpp)"
THIRD_PARTY = {
    "hwy": r"src/cpu/.*",
    "immintrin.h": r"src/cpu/.*",
    "tbb": r"src/core/parallel_for\.cpp",
    "oneapi": r"src/core/parallel_for\.cpp",
    "fmt": TEXT_FILES,
    "nlohmann": TEXT_FILES,
    "CLI": r"((apps|bench|tests)/.*\.cpp|apps/.*\.hpp)",
    "gtest": r"tests/.*",
    "gmock": r"tests/.*",
    "benchmark": r"bench/.*\.cpp",
}

# Written by the build.
GENERATED = {"commit.hpp", "ladder_code_lines.hpp"}

BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
# Written in pieces, so that this file passes its own check.
BANNED_TEXT = [
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b"), "an unfinished remark: finish it or file it"),
    (re.compile(r"(?<![\w.$}/*~-])/(work|home|root|tmp|Users|mnt|scratch)/"),
     "a path of one machine: it must be relative or an argument"),
]
SOURCE = re.compile(r"\.(cpp|hpp|h|c|cu|cuh)$")
TEXT = re.compile(r"(\.(cpp|hpp|h|c|cu|cuh|py|sh|md|cmake|txt|json|in|yml|yaml|toml)"
                  r"|Makefile|/run)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def layer_of(path):
    """The longest folder of the table that holds the path, or None."""
    holders = [folder for folder in MAY_INCLUDE if path.startswith(folder + "/")]
    return max(holders, key=len, default=None)


def resolve(path, name):
    """The repository's file that an include names, or None for the rest of the world."""
    folders = [str(Path(path).parent), ".", "include", "src", "tests", "apps", "bench"]
    for folder in folders:
        candidate = (ROOT / folder / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(ROOT):
            return str(candidate.relative_to(ROOT))
    return None


def include_breach(path, quote, name):
    """What is wrong with this include, or None."""
    if name.startswith("../"):
        return "a path upwards: it must start at include/, src/ or tests/"
    target = resolve(path, name)
    if target is None:
        if quote == '"' and name not in GENERATED and not path.startswith("tests/"):
            return "no file of the repository has this name"
        allowed = THIRD_PARTY.get(name.split("/")[0])
        if allowed and not re.fullmatch(allowed, path):
            return f"this third party may be included by {allowed} only"
        if KERNEL_VISIBLE.fullmatch(path):
            return "NVRTC finds no header of the toolkit and none of the standard library"
        if path.startswith("include/") and ("/" in name or name.endswith(".hpp")):
            return "public headers include the C++ standard library only"
        return None
    if KERNEL_VISIBLE.fullmatch(path) and not KERNEL_VISIBLE.fullmatch(target):
        return "kernels include only what NVRTC reads: KERNEL_VISIBLE in scripts/check_layers.py"
    layer, target_layer = layer_of(path), layer_of(target)
    if layer is None:  # tests
        return None
    if target.startswith("tests/"):
        shares = "tests" in MAY_INCLUDE[layer] and target.startswith(SHARED_TESTS)
        return None if shares else "only tests, and apps and bench for tests/support, include tests"
    if layer in OF_KERNELS_ONLY and target_layer == "src/cuda" and not KERNEL_VISIBLE.fullmatch(target):
        return f"of src/cuda {layer} includes what kernels read: KERNEL_VISIBLE in scripts/check_layers.py"
    if target_layer != layer and target_layer not in MAY_INCLUDE[layer]:
        return f"{layer} must not include {target_layer}: dependencies point downwards"
    return None


def breaches_in(path, text):
    """(line, what is wrong) of a file; `text` is a function that reads it."""
    if Path(path).stem.split(".")[0] in BANNED_NAMES or BANNED_NAMES & set(Path(path).parts):
        yield 1, "a name that says nothing: name the file after what it holds"
    if not TEXT.search(path):
        return
    for number, line in enumerate(text().splitlines(), 1):
        for pattern, reason in BANNED_TEXT:
            if pattern.search(line):
                yield number, reason
        match = INCLUDE.match(line)
        if match and SOURCE.search(path):
            breach = include_breach(path, *match.groups())
            if breach:
                yield number, f"includes {match.group(2)}: {breach}"


# (file, include, whether it is a breach): the rule is tried on these before it is trusted.
KNOWN = [
    ("src/core/x.cpp", '"plan/schedule.hpp"', True),
    ("include/tilefold/cuda/x.cuh", '"cuda/kernels/sm90/forward/kernel.cuh"', False),
    ("include/tilefold/cuda/x.cuh", '"cuda/launch/forward_kernel.hpp"', True),
    ("src/plan/x.cpp", '"cpu/backend.hpp"', True),
    ("src/cpu/x.cpp", '"plan/schedule.hpp"', False),
    ("src/cpu/x.cpp", "<hwy/highway.h>", False),
    ("src/plan/x.cpp", "<hwy/highway.h>", True),
    ("src/core/x.cpp", "<tbb/parallel_for.h>", True),
    ("src/core/x.cpp", "<fmt/format.h>", False),
    ("src/core/x.hpp", "<fmt/format.h>", True),
    ("include/tilefold/x.hpp", "<fmt/format.h>", True),
    ("include/tilefold/x.hpp", "<vector>", False),
    ("include/tilefold/x.hpp", '"core/geometry.hpp"', True),
    ("include/tilefold/score/x.hpp", "<cmath>", True),
    ("include/tilefold/score/x.hpp", '"tilefold/score/place.hpp"', False),
    ("include/tilefold/score/x.hpp", '"tilefold/dtype.hpp"', True),
    ("include/tilefold/fold.hpp", "<cmath>", True),
    ("src/cuda/tile/ptx/x.cuh", "<cstdint>", True),
    ("src/cuda/tile/x.cuh", "<cuda_fp16.h>", True),
    ("src/cuda/tile/x.cuh", '"cuda_bf16.h"', True),
    ("src/cuda/tile/x.cuh", '"cuda/tile/swizzle.cuh"', False),
    ("src/cuda/kernels/sm80/x.cuh", "<mma.h>", True),
    ("src/cuda/kernels/sm80/x.cuh", "<cuda/std/array>", True),
    ("src/cuda/kernels/sm80/x.hpp", "<vector>", True),
    ("src/cuda/kernels/sm80/x.cuh", '"tilefold/fold.hpp"', False),
    ("src/cuda/kernels/x.cuh", '"tilefold/dtype.hpp"', True),
    ("src/cuda/kernels/x.cuh", '"cuda/launch/forward_kernel.hpp"', True),
    ("src/cuda/launch/x.cpp", '"cuda/kernels/sm80/registry.hpp"', False),
    ("src/cuda/launch/x.cpp", '"cuda/jit/cache.hpp"', False),
    ("src/cuda/jit/x.cpp", '"cuda/kernels/sm90/forward/registry.hpp"', False),
    ("src/cuda/jit/x.cpp", '"cuda/runtime/check.hpp"', False),
    ("src/cuda/jit/x.cpp", '"cuda/launch/forward_kernel.hpp"', True),
    ("src/cuda/runtime/x.cpp", '"cuda/jit/cache.hpp"', True),
    ("src/cuda/launch/x.cuh", "<string>", False),
    ("apps/tilefold/x.cpp", "<CLI/CLI.hpp>", False),
    ("tests/cpu/x.cpp", '"cpu/backend.hpp"', False),
]


def check_the_check():
    for path, include, expected in KNOWN:
        found = list(breaches_in(path, lambda: f"#pragma once\n#include {include}\n"))
        if bool(found) != expected:
            sys.exit(f"check_layers.py itself is wrong: {path} including {include} gives {found}")


def main():
    check_the_check()
    listing = subprocess.run([ROOT / "scripts/list_files.sh"], check=True, capture_output=True,
                             text=True).stdout.splitlines()
    count = 0
    for path in listing:
        for number, breach in breaches_in(path, lambda: (ROOT / path).read_text(errors="replace")):
            print(f"{path}:{number}: {breach}")
            count += 1
    print(f"{len(listing)} files, {count} breaches")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
