"""Files of budgets under tests/cuda and the command line of the scripts that hold kernels to them."""

import argparse
import csv
import re

from ptxas_report import ROOT


def read(path):
    """(nvcc, rows as text); of a file that is not there ("", [])."""
    if not path.exists():
        return "", []
    lines = path.read_text().splitlines()
    return re.search(r"nvcc ([\d.]+)", lines[0]).group(1), list(csv.DictReader(lines[1:]))


def write(path, nvcc, script, fields, rows):
    """Rows are {field: value}. The first line names the compiler and who wrote it."""
    with path.open("w", newline="") as file:
        file.write(f"# nvcc {nvcc}; written by scripts/{script} --update\n")
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def options(description):
    """(build folder, whether --update was given)."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", default="build", help="build folder, relative to the repository")
    parser.add_argument("--update", action="store_true", help="write the budgets anew")
    given = parser.parse_args()
    return (ROOT / given.build).resolve(), given.update
