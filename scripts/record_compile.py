#!/usr/bin/env python3
"""Runs one compile of a CUDA unit and keeps what ptxas said beside the object.

    record_compile.py [ccache] nvcc ARGUMENT... -o OBJECT

A compiler launcher, set by cmake/TilefoldCuda.cmake. OBJECT.ptxas then holds the lines that
`-Xptxas -v` writes to standard error, and a line of the CPU time and the day of the compile, with
what the reference took on the same machine at about the same time (scripts/compile_clock.py):

    tilefold: 5.81 CPU seconds, reference 3.12, 2026-11-30

The rest of standard error passes through, and so does the compiler's exit status. Under ccache the
script stands once more between ccache and nvcc (CCACHE_PREFIX): that line goes through the cache with
the rest of standard error, so a hit reports the compile that filled it, and the machine it ran on.
"""

import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

import compile_clock

INSIDE = "TILEFOLD_RECORD_COMPILE_INSIDE"  # the build folder, for the script between ccache and nvcc
# What `ptxas -v` adds of a kernel, and our own line. An advisory such as C7510 is kept and shown.
REPORT = re.compile(r"ptxas info\s*:|\s+\d+ bytes stack frame|\s*$|tilefold: ")
ADVISORY = re.compile(r"\bC75\d\d\b")


def timed(command, folder):
    """Runs the compiler, then writes its CPU time and the reference's to standard error."""
    status, seconds = compile_clock.cpu_seconds(command)
    if status == 0:
        reference = compile_clock.recent(command[0], folder)
        beside = f"reference {reference:.2f}, " if reference else ""
        print(f"tilefold: {seconds:.2f} CPU seconds, {beside}{datetime.date.today()}",
              file=sys.stderr)
    return status


def recorded(command):
    """Runs the command and splits its standard error into the report and the rest."""
    environment = dict(os.environ, **{INSIDE: os.getcwd()})
    if Path(command[0]).name == "ccache":
        environment["CCACHE_PREFIX"] = str(Path(__file__).resolve())
    else:
        command = [str(Path(__file__).resolve()), *command]
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace",
                            env=environment, check=False)
    report = []
    for line in result.stderr.splitlines(keepends=True):
        kept = REPORT.match(line)
        if kept:
            report.append(line)
        if not kept or ADVISORY.search(line):
            sys.stderr.write(line)
    if result.returncode == 0 and "-o" in command:
        Path(command[command.index("-o") + 1] + ".ptxas").write_text("".join(report))
    return result.returncode


def main():
    command = sys.argv[1:]
    if not command:
        sys.exit("record_compile.py: no command: it must be a launcher of nvcc")
    sys.exit(timed(command, os.environ[INSIDE]) if INSIDE in os.environ else recorded(command))


if __name__ == "__main__":
    main()
