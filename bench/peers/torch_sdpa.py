#!/usr/bin/env python3
"""Times PyTorch's attention on a GPU: its FlashAttention-2 and cuDNN, on the shapes of our own benchmark.

    python3 bench/peers/torch_sdpa.py [--backend fa2,cudnn] [--head-dim 64,128,256]
                                      [--seq 512,...,16384] [--dtype bf16] [--runs 20] [--csv FILE]

batch * length = 16384 and heads * head_dim = 2048; dense [batch, length, heads, head_dim] memory, causal
and not. Random normal inputs, two sets in rotation (each larger than the L2 of an H200). Each point begins
after the card has rested 0.4 s and been warmed by three launches, since a card that has just run at its power
limit keeps a lower clock. Each time is the median of --runs launches that are queued behind a spinning kernel
and timed by their own events: the method of `tilefold bench forward` and `tilefold ladder`, so that the rows of one run on one machine compare. FLOPs are 4 * head_dim * pairs, all
pairs or, causal, half of them. A backend that refuses a shape gives a comment line with its reason.

Needs a CUDA build of PyTorch; nothing is downloaded. Exit code 5 without a device.
"""
import argparse
import datetime
import itertools
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

TOKENS, HIDDEN = 16384, 2048
REST_SECONDS = 0.4  # as bench/cuda/device.cu, which says why
BACKENDS = {"fa2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
HEADER = "peer,dtype,batch,heads,hdim,seqlen_q,seqlen_k,causal,ms,fastest_ms,slowest_ms,tflops"


def make_set(batch, heads, length, head_dim, dtype):
    """Query, key and value as models keep them; seen as [batch, heads, length, head_dim]."""
    memory = [torch.randn(batch, length, heads, head_dim, device="cuda").to(dtype) for _ in range(3)]
    return [tensor.transpose(1, 2) for tensor in memory]


def queued_milliseconds(call, sets, runs):
    """Sorted times of `runs` launches. The spinning kernel holds the stream until all are queued."""
    call(sets[0])  # builds what the backend builds at its first call
    torch.cuda.synchronize()
    time.sleep(REST_SECONDS)
    for warm_up in range(3):
        call(sets[warm_up % len(sets)])
    torch.cuda.synchronize()
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(runs)]
    stops = [torch.cuda.Event(enable_timing=True) for _ in range(runs)]
    torch.cuda._sleep(40_000_000)
    for run in range(runs):
        starts[run].record()
        call(sets[run % len(sets)])
        stops[run].record()
    torch.cuda.synchronize()
    return sorted(start.elapsed_time(stop) for start, stop in zip(starts, stops))


def measure(args):
    """Yields one CSV line a backend and shape."""
    for head_dim in args.head_dim:
        heads = HIDDEN // head_dim
        for length in args.seq:
            batch = max(1, TOKENS // length)
            for dtype in args.dtype:
                sets = [make_set(batch, heads, length, head_dim, DTYPES[dtype]) for _ in range(2)]
                for causal in (False, True):
                    call = lambda s: scaled_dot_product_attention(*s, is_causal=causal)
                    for name in args.backend:
                        shape = f"{name},{dtype},{batch},{heads},{head_dim},{length},{length},{int(causal)}"
                        try:
                            with torch.no_grad(), sdpa_kernel(BACKENDS[name]):
                                ms = queued_milliseconds(call, sets, args.runs)
                        except RuntimeError as refusal:
                            yield f"# {shape}: {' '.join(str(refusal).split())[:160]}"
                            continue
                        median = ms[len(ms) // 2]
                        flops = 4 * batch * heads * length * length * head_dim / (2 if causal else 1)
                        yield (f"{shape},{median:.4f},{ms[0]:.4f},{ms[-1]:.4f},"
                               f"{flops / median / 1e9:.2f}")
                del sets
                torch.cuda.empty_cache()


def report(title, header, measured, csv):
    """Prints each line as it is measured, and writes all to the file `csv` where one is named. Ends the program with
    exit code 5 where there is no device. `title`: a function, since it names the device."""
    if not torch.cuda.is_available():
        print(f"{sys.argv[0].rpartition('/')[2]}: no CUDA device is visible to PyTorch", file=sys.stderr)
        sys.exit(5)
    lines = []
    for line in itertools.chain([title(), header], measured):
        print(line, flush=True)
        lines.append(line)
    if csv:
        with open(csv, "w") as file:
            file.write("\n".join(lines) + "\n")


def main():
    listed = lambda kind: lambda text: [kind(part) for part in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", type=listed(str), default=["fa2", "cudnn"])
    parser.add_argument("--head-dim", type=listed(int), default=[64, 128, 256])
    parser.add_argument("--seq", type=listed(int), default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--dtype", type=listed(str), default=["bf16"])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--csv")
    args = parser.parse_args()
    for given, known, option in ((args.backend, BACKENDS, "--backend"), (args.dtype, DTYPES, "--dtype")):
        for name in given:
            if name not in known:
                parser.error(f"{option} is '{name}': it must be one of {', '.join(known)}")
    report(lambda: f"# torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
                   f"{torch.cuda.get_device_name()}, {datetime.date.today()}", HEADER, measure(args), args.csv)


if __name__ == "__main__":
    main()
