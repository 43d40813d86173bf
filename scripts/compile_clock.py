"""CPU seconds of a compile, and the reference that makes those of one machine those of another.

tests/cuda/compile_reference.cu never changes: what it takes tells how fast a machine compiles, and
how busy it is. A unit that took s seconds while the reference took r would have taken
s * REFERENCE_SECONDS / r on the machine that the limits are meant for.
"""

import fcntl
import resource
import subprocess
import tempfile
import time
from pathlib import Path

REFERENCE = Path(__file__).resolve().parent.parent / "tests/cuda/compile_reference.cu"
# On 2 cores of an AMD EPYC (Zen 5), nvcc 13.0.88, 2026-11-30: 2.8 to 3.1 in 12 compiles, whether the
# other core is idle or compiles too.
REFERENCE_SECONDS = 3.0
FLAGS = ["-std=c++20", "-O3", "-gencode", "arch=compute_80,code=sm_80",
         "-gencode", "arch=compute_90a,code=sm_90a"]
LASTS_SECONDS = 120  # in a build: one compile of the reference in 80 of two cores' seconds


def cpu_seconds(command, **options):
    """(exit status, user and system time of the command and all that it starts)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    status = subprocess.call(command, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return status, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(nvcc):
    """CPU seconds of the reference, here and now; None where this nvcc does not compile it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [nvcc, *FLAGS, "-c", REFERENCE, "-o", Path(folder) / "reference.o"]
        status, seconds = cpu_seconds(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return seconds if status == 0 else None


def recent(nvcc, folder):
    """CPU seconds of the reference, lately, in a build in this folder; None where it has never compiled.

    Whoever finds it old measures it, beside the build's other compiles; those take the old one.
    """
    kept = Path(folder) / "compile_reference.txt"
    with open(kept.with_suffix(".lock"), "w") as lock:
        if kept.exists():
            new = 0 <= time.time() - kept.stat().st_mtime < LASTS_SECONDS
            if new or not taken(lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
                return float(kept.read_text())
        else:
            taken(lock, fcntl.LOCK_EX)
            if kept.exists():
                return float(kept.read_text())
        seconds = measure(nvcc)
        if seconds is not None:
            written = kept.with_suffix(".new")
            written.write_text(f"{seconds:.2f}\n")
            written.replace(kept)
    return seconds


def taken(lock, how):
    """Whether the lock is this process's now."""
    try:
        fcntl.flock(lock, how)
    except BlockingIOError:
        return False
    return True


def on_reference_machine(seconds, reference):
    """CPU seconds as the limits mean them; as they are where no reference is known."""
    return seconds * REFERENCE_SECONDS / reference if reference else seconds
