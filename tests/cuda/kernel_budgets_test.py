#!/usr/bin/env python3
"""Tests scripts/kernel_budgets.py, kernel_table.py, compile_clock.py and record_compile.py: what must be
refused is.

    [NVCC=path] tests/cuda/kernel_budgets_test.py

With NVCC, kernels that spill or waste Hopper's registers are compiled too. No GPU is needed.
"""

import contextlib
import io
import os
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import compile_clock  # noqa: E402
import kernel_budgets as budgets  # noqa: E402
import kernel_table  # noqa: E402
from ptxas_report import Listed, Unit, parse, without_spaces  # noqa: E402

REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4meanPf' for 'sm_90a'
ptxas info    : Function properties for _Z4meanPf
    8 bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers, {shared} bytes smem, 360 bytes cmem[0]
{more}
tilefold: {seconds} CPU seconds,{reference} 2026-11-30
"""
LISTING = {"mean": Listed("sm80", "sm80 mean", 1000)}


def unit(stores=0, loads=0, registers=40, shared=24, more="", seconds="3.50", reference=""):
    text = REPORT.format(stores=stores, loads=loads, registers=registers, shared=shared, more=more,
                         seconds=seconds, reference=reference)
    return parse(text, Unit("mean.cu", "tilefold_kernels", "src/mean.cu"))


def rows(*units):
    return budgets.actual_rows(units, LISTING)[0]


def golden(**changes):
    made = rows(unit())
    made["sm80 mean", "90a"] |= changes
    return budgets.Golden("13.0.88", made)


def refused(found, wanted, same_compiler=True):
    return list(budgets.compare(found, wanted, same_compiler))


class Reading(unittest.TestCase):
    def test_every_figure(self):
        row = rows(unit(stores=12, loads=20))["sm80 mean", "90a"]
        self.assertEqual(row, {"family": "sm80", "kernel": "sm80 mean", "arch": "90a",
                               "registers": 40, "spill_bytes": 32, "stack_bytes": 8,
                               "static_shared_bytes": 24, "dynamic_shared_bytes": 1000})
        self.assertEqual((unit().cpu_seconds, unit().reference_seconds, unit().day), (3.5, 0, "2026-11-30"))
        beside = unit(reference=" reference 4.25,")
        self.assertEqual((beside.cpu_seconds, beside.reference_seconds, beside.day), (3.5, 4.25, "2026-11-30"))

    def test_names(self):
        self.assertEqual(without_spaces("void a::f<a::C<(a::T)1, 2> >(a::P, int (*)(int))"),
                         "a::f<a::C<(a::T)1,2>>")

    def test_the_file_of_budgets_comes_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "budgets.csv"
            budgets.write_golden(golden(), path)
            self.assertEqual(budgets.read_golden(path), golden())


class Refusals(unittest.TestCase):
    def test_what_is_within_passes(self):
        self.assertEqual(refused(rows(unit()), golden()), [])
        self.assertEqual(refused(rows(unit(registers=39)), golden()), [])

    def test_one_more_of_anything(self):
        for more, field in ((unit(registers=41), "registers 41, budget 40"),
                            (unit(loads=4), "spill_bytes 4, budget 0"),
                            (unit(shared=25), "static_shared_bytes 25, budget 24")):
            (breach,) = refused(rows(more), golden())
            self.assertIn(field, breach)
            self.assertIn("sm80 mean, sm_90a", breach)
            self.assertEqual(refused(rows(more), golden(), same_compiler=False), [])
        for same in (True, False):
            self.assertEqual(len(refused(rows(unit()), golden(dynamic_shared_bytes=999), same)), 1)

    def test_kernels_without_budget_and_budgets_without_kernel(self):
        self.assertIn("no budget", refused(rows(unit()), budgets.Golden("", {}))[0])
        self.assertIn("not compiled", refused({}, golden())[0])
        _, breaches = budgets.actual_rows([unit()], {})
        self.assertIn("kernel_listing.cpp", breaches[0])

    def test_advisories_and_spills_of_called_functions(self):
        for number in ("C7508", "C7510", "C7512", "C7519"):
            more = f"ptxas info    : ({number}) Potential Performance Loss: wgmma"
            (remark,) = budgets.remarks([unit(more=more)], LISTING)
            self.assertIn(number, remark)
            self.assertIn("sm80 mean", remark)
        called = ("ptxas info    : Function properties for _Z1fv\n"
                  "    8 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads")
        (remark,) = budgets.remarks([unit(more=called)], LISTING)
        self.assertIn("spills 12 bytes", remark)
        self.assertEqual(list(budgets.remarks([unit()], LISTING)), [])

    def test_more_shared_memory_than_a_block_has(self):
        most = 227 * 1024 - 1000
        self.assertEqual(list(budgets.limits(rows(unit(shared=most)))), [])
        self.assertEqual(len(list(budgets.limits(rows(unit(shared=most + 1))))), 1)

    def test_spills_of_production_kernels_are_accounted_for(self):
        spilling = rows(unit(stores=8))
        for line in ("sm80 mean on sm_90a is fast", "sm80 mean on sm_80: 8 bytes of spills"):
            self.assertEqual(len(list(budgets.undocumented_spills(spilling, [line]))), 1)
        accounted = ["sm80 mean on sm_90a: 8 bytes of spills, 20 % faster"]
        self.assertEqual(list(budgets.undocumented_spills(spilling, accounted)), [])
        spilling["sm80 mean", "90a"]["family"] = "ladder"
        self.assertEqual(list(budgets.undocumented_spills(spilling, [])), [])



def breaches(units, slack=1, again=99.0):
    """Of the compile time, where a unit compiled again takes `again` by the reference."""
    with contextlib.redirect_stdout(io.StringIO()):
        return list(kernel_table.breaches("80;90a", units, slack, lambda unit, limit: again))


def beside(seconds, factor):
    """A unit compiled on a machine that takes `factor` times as long for the reference."""
    reference = f" reference {factor * compile_clock.REFERENCE_SECONDS:.2f},"
    return unit(seconds=f"{factor * seconds:.2f}", reference=reference)


class LongCompiles(unittest.TestCase):
    def test_are_refused(self):
        self.assertEqual(breaches([unit(seconds="10.00")]), [])
        self.assertEqual(len(breaches([unit(seconds="10.01")])), 1)
        self.assertEqual(breaches([unit(seconds="10.01")], slack=2), [])
        self.assertEqual(len(breaches([unit(seconds="9.00")] * 67)), 1)
        self.assertIn("unknown", breaches([Unit("x.cu", "", "x.cu"), unit()])[0])

    def test_count_by_the_reference(self):
        for factor in (0.5, 1, 2, 5):
            self.assertEqual(breaches([beside(9.9, factor)] * 60), [])
            (breach,) = breaches([beside(10.2, factor)])
            self.assertIn(f"{10.2 * factor:.1f} CPU seconds here", breach)
            (breach,) = breaches([beside(9.9, factor)] * 61)
            self.assertIn("604 by the reference", breach)

    def test_are_compiled_again_before_they_are_refused(self):
        self.assertEqual(breaches([beside(12, 2)], again=9.9), [])
        self.assertIn("10.1 by the reference", breaches([beside(12, 2)], again=10.1)[0])

    def compiled_again(self, seconds, limit):
        """Of a compiler that takes these (unit, reference) seconds one after the other."""
        left = [value for pair in seconds for value in pair]
        clock = kernel_table.compile_clock
        made = unit()
        made.command = ["nvcc", "-c", "mean.cu", "-o", "mean.o"]
        with unittest.mock.patch.object(clock, "cpu_seconds", lambda *a, **k: (0, left.pop(0))):
            return kernel_table.compiled_again(made, ROOT, limit), len(left) // 2

    def test_what_a_machine_does_besides_only_adds(self):
        noisy = [(24, 3), (10.5, 6), (30, 9)]
        self.assertEqual(self.compiled_again(noisy, 10), (10.5, 0))
        self.assertEqual(self.compiled_again(noisy, 11), (10.5, 1))
        self.assertEqual(self.compiled_again(noisy, 25), (24, 2))


FAKE_COMPILER = """#!/bin/sh
echo "$@" >>{calls}
exit {status}
"""


class Reference(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.calls = Path(self.folder.name) / "calls.txt"

    def compiler(self, status=0):
        path = Path(self.folder.name) / "nvcc"
        path.write_text(FAKE_COMPILER.format(calls=self.calls, status=status))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def record(self, folder):
        target = Path(self.folder.name) / "unit.o"
        subprocess.run([ROOT / "scripts/record_compile.py", self.compiler(), "-c", "unit.cu", "-o", target],
                       check=True, cwd=folder)
        return parse(Path(f"{target}.ptxas").read_text(), Unit("unit.cu", "", "unit.cu"))

    def test_is_measured_now_and_then(self):
        kept = Path(self.folder.name) / "compile_reference.txt"
        self.record(self.folder.name)
        kept.write_text("4.25")
        self.assertEqual(self.record(self.folder.name).reference_seconds, 4.25)
        self.assertEqual(self.calls.read_text().count("compile_reference.cu"), 1)
        minutes_ago = kept.stat().st_mtime - 2 * compile_clock.LASTS_SECONDS
        os.utime(kept, (minutes_ago, minutes_ago))
        self.assertNotEqual(self.record(self.folder.name).reference_seconds, 4.25)
        self.assertEqual(self.calls.read_text().count("compile_reference.cu"), 2)
        self.assertEqual(self.calls.read_text().count("unit.cu"), 3)

    def test_may_be_missing(self):
        self.assertIsNone(compile_clock.recent(self.compiler(status=1), self.folder.name))
        self.assertEqual(compile_clock.on_reference_machine(7.0, None), 7.0)


@unittest.skipUnless("NVCC" in os.environ, "NVCC is not set")
class RealCompiler(unittest.TestCase):
    def test_what_ptxas_says_is_kept_and_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "breach.o"
            shown = subprocess.run(
                [ROOT / "scripts/record_compile.py", os.environ["NVCC"], "-std=c++20", "-Xptxas=-v",
                 "-gencode", "arch=compute_90a,code=sm_90a", "-c", ROOT / "tests/cuda/budget_breach.cu",
                 "-o", target], check=True, capture_output=True, text=True, cwd=folder).stderr
            made = parse(Path(f"{target}.ptxas").read_text(), Unit("breach.cu", "", "breach.cu"))
        self.assertEqual(len(made.usages), 3)
        self.assertGreater(made.cpu_seconds, 0)
        self.assertGreater(made.reference_seconds, 0.1)
        spill = {usage.symbol: usage.spill for usage in made.usages}
        self.assertGreater(spill["_Z6spillsPf"], 0)
        found = "\n".join(budgets.remarks([made], {}))
        self.assertIn("C7508", found)
        self.assertIn("touched_before_wait", found)
        self.assertIn("C7508", shown)
        self.assertNotIn("spill stores", shown)


if __name__ == "__main__":
    unittest.main()
