#!/usr/bin/env python3
"""Beside the ladder: the same forward pass in Triton, checked against float64 and timed.

    python3 examples/triton/attention.py [--seq 4096,16384] [--head-dim 64,128] [--dtype f16,bf16]
                                         [--runs 20] [--csv FILE] [--check-only]

Dense [batch, length, heads, head_dim] tensors, any lengths, Sq != Sk, causal (bottom-right) or not, rows
that see nothing give 0. One program of the grid owns a tile of query rows of one head, as rung 4 does; the
compiler chooses what rung 6 spells out (and, on Hopper, rung 7): tensor-core instructions, layouts in shared
memory, copies in flight. `max_error` is the largest over the small shapes of check(), every row: it is not of
the row's shape. Shapes are those of `tilefold ladder`: batch * length = 16384, heads * head_dim = 2048.

Needs PyTorch and Triton with a CUDA device; nothing is downloaded.
"""
import argparse
import contextlib
import math
import pathlib
import sys
import time

import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634
REST_SECONDS = 0.4  # a card that has just run at its power limit keeps a lower clock


@triton.jit
def forward(query, key, value, out, heads, query_length, key_length, scale_log2,
            head_dim: tl.constexpr, rows: tl.constexpr, keys: tl.constexpr, causal: tl.constexpr):
    """Grid: (query tiles, batch * heads). Scores are kept in units of log 2, so that exp2 serves."""
    sequence = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    stride = heads * head_dim
    column = tl.arange(0, head_dim)
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    query_at = (sequence * query_length + row)[:, None] * stride + head * head_dim + column[None, :]
    q = tl.load(query + query_at, mask=row[:, None] < query_length, other=0.0)

    offset = key_length - query_length
    keys_seen = key_length
    if causal:  # the tile's last row sees most
        last = tl.minimum(tl.program_id(0) * rows + rows, query_length) - 1
        keys_seen = tl.maximum(0, tl.minimum(key_length, last + offset + 1))

    row_max = tl.full([rows], float("-inf"), tl.float32)
    row_sum = tl.zeros([rows], tl.float32)
    total = tl.zeros([rows, head_dim], tl.float32)
    for first_key in range(0, keys_seen, keys):
        k_index = first_key + tl.arange(0, keys)
        key_at = (sequence * key_length + k_index)[:, None] * stride + head * head_dim + column[None, :]
        exists = k_index[:, None] < key_length
        k = tl.load(key + key_at, mask=exists, other=0.0)
        v = tl.load(value + key_at, mask=exists, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale_log2
        seen = k_index[None, :] < key_length
        if causal:
            seen = seen & (k_index[None, :] <= row[:, None] + offset)
        scores = tl.where(seen, scores, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        # (-inf) - (-inf) is NaN where a row has seen no key yet: shift by 0 instead.
        shift = tl.where(new_max == float("-inf"), 0.0, new_max)
        rescale = tl.exp2(row_max - shift)
        weights = tl.exp2(scores - shift[:, None])
        row_sum = row_sum * rescale + tl.sum(weights, 1)
        total = tl.dot(weights.to(v.dtype), v, total * rescale[:, None])
        row_max = new_max
    total = total / tl.where(row_sum == 0.0, 1.0, row_sum)[:, None]
    tl.store(out + query_at, total.to(out.dtype.element_ty), mask=row[:, None] < query_length)


def attend(q, k, v, causal, scale=None):
    """q [B, Sq, H, D], k and v [B, Sk, H, D], contiguous; returns [B, Sq, H, D]."""
    batch, query_length, heads, head_dim = q.shape
    out = torch.empty_like(q)
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    rows, keys = 128, 64
    grid = (triton.cdiv(query_length, rows), batch * heads)
    forward[grid](q, k, v, out, heads, query_length, k.shape[1], scale * LOG2_E, head_dim=head_dim,
                  rows=rows, keys=keys, causal=causal, num_warps=8 if head_dim == 128 else 4,
                  num_stages=3)
    return out


def exact(q, k, v, causal):
    """The materialised attention in float64."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    if causal:
        i = torch.arange(q.shape[2], device=q.device)[:, None]
        j = torch.arange(k.shape[2], device=q.device)[None, :]
        scores = scores.masked_fill(j > i + k.shape[2] - q.shape[2], float("-inf"))
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)  # rows that see nothing
    return (weights @ v).transpose(1, 2)


def inputs(batch, query_length, key_length, heads, head_dim, dtype):
    one = lambda n: torch.randn(batch, n, heads, head_dim, device="cuda").to(dtype)
    return one(query_length), one(key_length), one(key_length)


def check(dtype):
    """Largest error over small shapes; exits where one is beyond the rounding of the dtype."""
    worst = 0.0
    unit = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}[dtype]
    for head_dim in (64, 128):
        for causal in (False, True):
            for sq, sk in ((1, 1), (5, 5), (63, 63), (65, 65), (127, 127), (200, 200), (1000, 1000),
                           (1, 200), (70, 200), (200, 70), (65, 1000)):
                q, k, v = inputs(2, sq, sk, 3, head_dim, dtype)
                difference = (attend(q, k, v, causal).double() - exact(q, k, v, causal)).abs()
                error = difference.max().item()
                if not error <= 4 * unit:  # weights, output and their sum: a few roundings
                    sys.exit(f"attention.py: wrong by {error} at head_dim {head_dim}, Sq {sq}, "
                             f"Sk {sk}, causal {causal}, {dtype}")
                worst = max(worst, error)
    return worst


def median_ms(call, sets, runs):
    """Launches queued behind a spinning kernel, each between its own events, as `tilefold ladder`.

    The card rests before the warm-up, so that a time does not depend on what ran before.
    """
    call(*sets[0])  # compiles
    torch.cuda.synchronize()
    time.sleep(REST_SECONDS)
    for i in range(3):
        call(*sets[i % len(sets)])
    torch.cuda.synchronize()
    torch.cuda._sleep(40_000_000)
    pairs = []
    for i in range(runs):
        pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        pair[0].record()
        call(*sets[i % len(sets)])
        pair[1].record()
        pairs.append(pair)
    torch.cuda.synchronize()
    return sorted(start.elapsed_time(stop) for start, stop in pairs)[runs // 2]


def code_lines():
    """Lines of `forward` and `attend`, neither blank nor comment alone nor docstring."""
    text = pathlib.Path(__file__).read_text().splitlines()
    start = next(i for i, line in enumerate(text) if line.startswith("@triton.jit"))
    stop = next(i for i, line in enumerate(text) if line.startswith("def exact"))
    code = [line.strip() for line in text[start:stop]]
    return sum(1 for line in code if line and not line.startswith(("#", '"""')))


def main():
    listed = lambda kind: lambda text: [kind(part) for part in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seq", type=listed(int), default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--head-dim", type=listed(int), default=[64, 128])
    parser.add_argument("--dtype", type=listed(str), default=["f16", "bf16"])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--csv")
    parser.add_argument("--check-only", action="store_true")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("attention.py: no CUDA device is visible to PyTorch", file=sys.stderr)
        sys.exit(5)
    torch.manual_seed(1)
    types = {"f16": torch.float16, "bf16": torch.bfloat16}
    worst = {name: check(types[name]) for name in args.dtype}
    lines = code_lines()
    print(f"# triton {triton.__version__}, torch {torch.__version__}, {torch.cuda.get_device_name()}")
    print("# checked: " + ", ".join(f"{name} within {worst[name]:.1e} of float64" for name in worst))
    if args.check_only:
        return
    header = "rung,dtype,batch,heads,hdim,seqlen_q,seqlen_k,causal,ms,tflops,max_error,lines"
    print(header)
    with open(args.csv, "w") if args.csv else contextlib.nullcontext() as file:
        if file:
            print(f"# triton {triton.__version__}, {torch.cuda.get_device_name()}\n{header}", file=file)
        for name in args.dtype:
            for head_dim in args.head_dim:
                heads = 2048 // head_dim
                for length in args.seq:
                    batch = max(1, 16384 // length)
                    sets = [inputs(batch, length, length, heads, head_dim, types[name])
                            for _ in range(2)]
                    for causal in (False, True):
                        ms = median_ms(lambda q, k, v: attend(q, k, v, causal), sets, args.runs)
                        flops = 4 * batch * heads * length * length * head_dim
                        rate = flops * (0.5 if causal else 1) / ms / 1e9
                        row = (f"triton,{name},{batch},{heads},{head_dim},{length},{length},"
                               f"{int(causal)},{ms:.4f},{rate:.2f},{worst[name]:.2e},{lines}")
                        print(row, flush=True)
                        if file:
                            print(row, file=file)


if __name__ == "__main__":
    main()
