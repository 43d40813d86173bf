#!/usr/bin/env python3
"""Tests scripts/sass_check.py on listings of a few lines: what must be refused is.

    tests/cuda/sass_check_test.py

Needs neither a GPU, nor nvcc, nor a disassembler.
"""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import sass_check as sass  # noqa: E402

NAME = "sm90 bf16 d16 64x16"  # 1 HGMMA of the scores, 1 of the output

# As cuobjdump prints it: the second line of an instruction is the upper half of its encoding. The
# walk over query tiles is the outer loop, that over key tiles the inner one. The wait of 0x10f0 lies
# behind the kernel's end and branches back to 0x1050: no loop, though its span holds both products.
LISTING = """
Fatbin elf code:
================
arch = sm_90a

	code for sm_90a
		Function : _Z7forwardv
	.headerflags	@"EF_CUDA_SM90"
        /*1000*/                   LDC R1, c[0x0][0x28] ;          /* 0x00000a00ff017b82 */
                                                                   /* 0x000fe20000000800 */
        /*1010*/                   UTMALDG.4D [UR8], [UR4] ;       /* 0x0 */
        /*1020*/                   HGMMA.64x16x16.F32.BF16 R24, gdesc[UR4], !UPT ;  /* 0x0 */
        /*1030*/                   {again} ;                       /* 0x0 */
        /*1040*/              @!P0 BRA 0x10f0 ;                    /* 0x0 */
        /*1050*/                   HGMMA.64x16x16.F32.BF16 R24, gdesc[UR4], !UPT ;  /* 0x0 */
        /*1060*/                   {first} ;                       /* 0x0 */
        /*1070*/                   MUFU.EX2 R3, R3 ;               /* 0x0 */
        /*1080*/                   HGMMA.64x16x16.F32.BF16 R40, R4, gdesc[UR8] ;    /* 0x0 */
        /*1090*/                   {last} ;                        /* 0x0 */
        /*10a0*/               @P1 BRA 0x1030 ;                    /* 0x0 */
        /*10b0*/                   HGMMA.64x16x16.F32.BF16 R40, R4, gdesc[UR8] ;    /* 0x0 */
        /*10c0*/                   MUFU.RCP R3, R3 ;               /* 0x0 */
        /*10d0*/               @P2 BRA 0x1020 ;                    /* 0x0 */
        /*10e0*/                   EXIT ;                          /* 0x0 */
        /*10f0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R0+URZ], R3 ;
        /*1100*/              @!P0 BRA 0x10f0 ;                    /* 0x0 */
        /*1110*/                   BRA 0x1050 ;                    /* 0x0 */
        /*1120*/                   BRA 0x1120;                     /* 0x0 */
		..........
"""


def listing(again="NOP", first="NOP", last="NOP"):
    text = LISTING
    for word, instruction in (("{again}", again), ("{first}", first), ("{last}", last)):
        text = text.replace(word, instruction)
    return text


def kernel(text, name=NAME):
    (code,) = sass.parse(text).values()
    return sass.kernel_of(name, code)


def refused(made, budgets=None, same_compiler=True):
    return list(sass.breaches([made], {NAME: 0} if budgets is None else budgets, same_compiler))


class Reading(unittest.TestCase):
    def test_every_instruction_once(self):
        functions = sass.parse(listing())
        self.assertEqual(list(functions), ["_Z7forwardv"])
        code = functions["_Z7forwardv"]
        self.assertEqual([i.address for i in code], list(range(0x1000, 0x1130, 16)))
        branch = code[4]
        self.assertEqual((branch.guarded, branch.name, branch.operands, branch.target()),
                         (True, "BRA", "0x10f0", 0x10f0))
        self.assertEqual(code[0].target(), -1)

    def test_which_branches_fall_through(self):
        for text, falls in (("BRA 0x40", False), ("@P0 BRA 0x40", True), ("BRA P1, 0x40", True),
                            ("@P0 BRA !P1, 0x40", True), ("BRA.DIV UR8, 0x40", True),
                            ("EXIT", False), ("@P0 EXIT", True), ("@!UP0 NOP", True),
                            ("RET.REL.NODEC R24 0x0", False), ("BSYNC B0", True)):
            (instruction,) = sass.parse(f"Function : f\n  /*0000*/  {text} ;")["f"]
            self.assertEqual(instruction.falls_through(), falls, text)

    def test_the_main_loop_is_the_inner_one(self):
        (code,) = sass.parse(listing()).values()
        loop = sass.main_loop(code, 2)
        self.assertEqual((loop[0].address, loop[-1].address), (0x1030, 0x10a0))
        outer = sass.main_loop(code, 3)
        self.assertEqual((outer[0].address, outer[-1].address), (0x1020, 0x10d0))
        self.assertEqual(sass.main_loop(code, 5), [])

    def test_every_figure(self):
        made = kernel(listing(again="R2UR UR4, R5", first="R2UR UR4, R5", last="STL [R1], R2"))
        self.assertEqual(made, sass.Kernel(NAME, True, 19, 1, 4, 8, 2, 1, 1, 1))
        self.assertIn(NAME, sass.table([made]))
        self.assertFalse(kernel(listing(), NAME + " formula").is_range)

    def test_the_file_of_budgets_comes_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "budgets.csv"
            kernels = [kernel(listing(first="R2UR UR4, R5")), kernel(listing(), NAME + " formula")]
            sass.write_golden("13.0.88", kernels, path)
            self.assertEqual(sass.read_golden(path), ("13.0.88", {NAME: 1}))


class Refusals(unittest.TestCase):
    def test_what_is_within_passes(self):
        self.assertEqual(refused(kernel(listing())), [])
        self.assertEqual(refused(kernel(listing(again="R2UR UR4, R5", last="R2UR UR4, R5"))), [])

    def test_r2ur_between_the_products(self):
        made = kernel(listing(first="R2UR UR4, R5"))
        self.assertIn("1 R2UR", refused(made)[0])
        self.assertEqual(refused(made, {NAME: 1}), [])
        self.assertEqual(refused(made, same_compiler=False), [])
        self.assertEqual(refused(kernel(listing(first="R2UR UR4, R5"), NAME + " formula"), {}), [])

    def test_spills_in_the_main_loop(self):
        for spill in ("STL.64 [R1], R2", "LDL R2, [R1+0x4]"):
            for name in (NAME, NAME + " formula"):
                found = refused(kernel(listing(last=spill), name), {NAME: 0} if name == NAME else {})
                self.assertIn("1 LDL and STL", found[0])
        outside = listing().replace("MUFU.RCP R3, R3", "LDL R2, [R1]")
        self.assertEqual(refused(kernel(outside)), [])

    def test_kernels_without_wgmma_tma_or_a_loop(self):
        self.assertIn("UTMALDG", refused(kernel(listing().replace("UTMALDG", "LDG")))[0])
        self.assertIn("no HGMMA", refused(kernel(listing().replace("HGMMA", "HMMA")))[0])
        self.assertIn("no loop", refused(kernel(listing().replace("@P1 BRA 0x1030", "NOP")
                                                .replace("@P2 BRA 0x1020", "NOP")))[0])

    def test_kernels_without_budget_and_budgets_without_kernel(self):
        self.assertIn("no budget", refused(kernel(listing()), {})[0])
        self.assertIn("not compiled", list(sass.breaches([], {NAME: 0}, True))[0])

    def test_the_report_says_what_it_left_out(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(sass.report([kernel(listing())], [], "13.0.88", "13.1.0"), 0)
            self.assertEqual(sass.report([], ["x"], "13.0.88", "13.0.88"), 1)
        self.assertIn("skipped: R2UR", said.getvalue())
        self.assertIn("error: x", said.getvalue())


if __name__ == "__main__":
    unittest.main()
