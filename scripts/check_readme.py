#!/usr/bin/env python3
"""Runs what a README shows: its ```sh blocks as scripts and its ```cpp programs as programs.

    scripts/check_readme.py README.md

Shell blocks run from the repository root with bash -euo pipefail, in the order in which they
stand. A block right after a comment <!-- needs: WHAT --> is not run (a GPU, another machine), and
says so. Lines that run this check itself (make test, .ci/run) are left out. A cpp block with a
main() is compiled against the release build and run; one without is a fragment, which no compiler
could judge.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)\s*$")
NEEDS = re.compile(r"<!--\s*needs:\s*(.*?)\s*-->")
RUNS_THIS = re.compile(r"^\s*(make test|bash \.ci/run|scripts/test\.sh)\b")
LIMIT_SECONDS = 300


def blocks_of(text):
    """(line number, language, what it needs or None, body) of every fenced block."""
    lines = text.splitlines()
    at, needs = 0, None
    while at < len(lines):
        fence = FENCE.match(lines[at])
        if not fence:
            marked = NEEDS.search(lines[at])
            needs = marked.group(1) if marked else needs if not lines[at].strip() else None
            at += 1
            continue
        end = at + 1
        while not lines[end].startswith("```"):
            end += 1
        yield at + 1, fence.group(1), needs, "\n".join(lines[at + 1:end]) + "\n"
        at, needs = end + 1, None


def run(command, **options):
    """None where the command succeeds, what it said where it fails."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=LIMIT_SECONDS, **options)
    except subprocess.TimeoutExpired:
        return f"still running after {LIMIT_SECONDS} s"
    return None if done.returncode == 0 else done.stdout + f"exit status {done.returncode}"


def run_shell(body):
    kept = "".join(line + "\n" for line in body.splitlines() if not RUNS_THIS.match(line))
    if not any(line.strip() and not line.lstrip().startswith("#") for line in kept.splitlines()):
        return None
    return run(["bash", "-euo", "pipefail", "-c", kept])


def run_program(body, folder):
    source, program = Path(folder) / "block.cpp", Path(folder) / "block"
    source.write_text(body)
    compiler = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-Iinclude", str(source)]
    library = next((ROOT / "build").glob("src/libtilefold.*"), None)
    if library is None:
        return "build/src holds no libtilefold: the release stage must run first"
    return (run([*compiler, "-o", str(program), str(library), "-lhwy", "-ltbb", "-pthread"])
            or run([str(program)]))


def main():
    path = Path(sys.argv[1])
    counts = {"run": 0, "failed": 0}
    with tempfile.TemporaryDirectory() as folder:
        for line, language, needs, body in blocks_of((ROOT / path).read_text()):
            if language != "sh" and not (language == "cpp" and "int main(" in body):
                continue
            if needs:
                print(f"skipped: {path}:{line} needs {needs}")
                continue
            failure = run_shell(body) if language == "sh" else run_program(body, folder)
            counts["run"] += 1
            if failure is not None:
                counts["failed"] += 1
                print(f"{path}:{line}: this {language} block fails:\n{body}{failure}")
    print(f"{path}: {counts['run']} blocks, {counts['failed']} failed")
    # A README whose blocks are no longer found would otherwise pass for ever.
    sys.exit(1 if counts["failed"] or not counts["run"] else 0)


if __name__ == "__main__":
    main()
