"""What record_compile.py kept of each CUDA unit, as values. Read by the scripts beside this one."""

import dataclasses
import json
import re
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\w+)'")
FUNCTION = re.compile(r"Function properties for (\w+)")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
STATIC_SHARED = re.compile(r"(\d+) bytes smem")
ADVISORY = re.compile(r"\(?\bC75\d\d\b.*")
CPU = re.compile(r"tilefold: ([\d.]+) CPU seconds, (?:reference ([\d.]+), )?(\S+)")


@dataclasses.dataclass
class Usage:
    """One kernel on one architecture, as ptxas reports it; bytes, but for registers."""
    symbol: str
    arch: str  # "90a"
    registers: int = 0
    spill: int = 0  # stores and loads
    stack: int = 0
    static_shared: int = 0


@dataclasses.dataclass
class Unit:
    """One object: its kernels, ptxas's advisories, and the CPU time of its compile (-1: unknown)."""
    name: str
    target: str
    source: str  # relative to the repository, or to the build folder where it is generated
    usages: list = dataclasses.field(default_factory=list)
    advisories: list = dataclasses.field(default_factory=list)
    called: list = dataclasses.field(default_factory=list)  # (symbol, spills) of functions not inlined
    cpu_seconds: float = -1.0
    reference_seconds: float = 0.0  # of scripts/compile_clock.py beside it; 0: unknown
    day: str = ""
    command: list = dataclasses.field(default_factory=list)  # the compile, without launchers


class NoReport(Exception):
    """A unit has not been compiled, or not through record_compile.py."""


def parse(text, unit):
    """Adds what one .ptxas file says to a unit."""
    kernel, function = None, ""
    for line in text.splitlines():
        if match := ENTRY.search(line):
            kernel = Usage(*match.groups())
            unit.usages.append(kernel)
        elif match := FUNCTION.search(line):
            function = match.group(1)
        elif match := SPILLS.search(line):
            stack, stores, loads = map(int, match.groups())
            if kernel is not None and function == kernel.symbol:
                kernel.stack, kernel.spill = stack, stores + loads
            else:
                unit.called.append((function, stores + loads))
        elif match := USED.search(line):
            kernel.registers = int(match.group(1))
            if shared := STATIC_SHARED.search(line):
                kernel.static_shared = int(shared.group(1))
        elif match := CPU.search(line):
            unit.cpu_seconds, unit.day = float(match.group(1)), match.group(3)
            unit.reference_seconds = float(match.group(2) or 0)
        if match := ADVISORY.search(line):
            unit.advisories.append(match.group(0))
    return unit


def commands(build):
    """(target, source, object, words of the command) of every CUDA unit of a build folder."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if not entry["file"].endswith(".cu"):
            continue
        words = shlex.split(entry["command"])
        target_object = words[words.index("-o") + 1]
        target = re.search(r"CMakeFiles/([^/]+)\.dir/", target_object).group(1)
        source = Path(entry["file"])
        base = build if source.is_relative_to(build) else ROOT
        yield target, str(source.relative_to(base)), build / target_object, words


def read_units(build, targets):
    """Units of these targets, in the build's order. Raises NoReport."""
    units = []
    for target, source, target_object, words in commands(build):
        if target not in targets:
            continue
        report = Path(str(target_object) + ".ptxas")
        if not report.exists():
            raise NoReport(f"{report} is missing: build target {target} first (with python3 present)")
        unit = Unit(Path(source).name, target, source, command=words)
        units.append(parse(report.read_text(), unit))
    return units


def compiler_version(build):
    """Of the build's nvcc: "13.0.88"."""
    compiler = next(words[0] for *_, words in commands(build))
    text = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True).stdout
    return re.search(r"V([\d.]+)", text).group(1)


def demangled(symbols):
    """Symbol -> the function's name without its parameters and without spaces."""
    text = subprocess.run(["c++filt"], input="\n".join(symbols), check=True, capture_output=True,
                          text=True).stdout.splitlines()
    return {symbol: without_spaces(line) for symbol, line in zip(symbols, text)}


def without_spaces(function):
    """A template's name has its return type in front and its parameters behind. g++ leaves out the
    zeros that a value ends in, nvcc writes them."""
    function = re.sub(r"\((?:[^()]|\([^()]*\))*\)$", "", function.strip())
    function = re.sub(r"\s", "", re.sub(r"^void ", "", function))
    return re.sub(r"(,((\([^()]*\))?0|false))+}", "}", function)


@dataclasses.dataclass
class Listed:
    """One line of kernel_listing."""
    family: str
    name: str
    dynamic_shared: int


def listing(build):
    """Function's name without spaces -> Listed, in the order of the registries."""
    text = subprocess.run([build / "kernel_listing"], check=True, capture_output=True,
                          text=True).stdout
    found = {}
    for line in text.splitlines():
        family, name, shared, function = line.split("\t")
        found[without_spaces(function)] = Listed(family, name, int(shared))
    return found
