#!/usr/bin/env python3
"""Times PyTorch's FlexAttention on the formulas of `tilefold bench forward --set run-time`.

    python3 bench/peers/flex_attention.py [--head-dim 64,128] [--runs 20] [--csv FILE]

16384 tokens in sequences of 8192, hidden size 2048, bf16: causal, a window of 1024, ALiBi, softcap 30, 32
documents, a prefix of a quarter, a quarter of all blocks of 128 x 128, and a tree of 64 drafts over 4096 keys
(32 sequences of 64 queries over 4160 keys). The patterns are those of bench/cuda/formulas.cpp, number for number.
first_result_ms is the time from the block mask to the end of the first call, compilation included, in a process
that has compiled other formulas before. Times as bench/peers/torch_sdpa.py takes them; FLOPs are 4 * head_dim *
heads * the pairs of 128 x 128 tiles that hold a visible pair, as `--set run-time` counts; the tree's all pairs.

Needs a CUDA build of PyTorch with triton; nothing is downloaded. Exit code 5 without a device.
"""
import argparse
import datetime
import time

import numpy
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from torch_sdpa import queued_milliseconds, report

TOKENS, HIDDEN, LENGTH, DRAFTS, TREE_KEYS = 16384, 2048, 8192, 64, 4160
HEADER = "peer,op,dtype,batch,heads,hdim,seqlen_q,seqlen_k,ms,fastest_ms,slowest_ms,tflops,first_result_ms"


def documents():
    """32 documents, cut where std::mt19937(2026) says."""
    draws = numpy.random.RandomState(2026).randint(0, 2**32, size=31, dtype=numpy.uint32)
    ids = numpy.zeros(LENGTH, dtype=numpy.int32)
    for cut in draws % LENGTH:
        ids[cut] += 1
    return torch.from_numpy(numpy.cumsum(ids).astype(numpy.int32)).cuda()


def blocks():
    """A quarter of all, as std::mt19937(2026) draws them."""
    side = LENGTH // 128
    draws = numpy.random.RandomState(2026).randint(0, 2**32, size=(side, side), dtype=numpy.uint32)
    return torch.from_numpy(draws % 4 == 0).cuda()


def tree():
    """Draft i follows draft (i - 1) // 3; each sees its ancestors."""
    sees = torch.zeros(DRAFTS, DRAFTS, dtype=torch.bool)
    for draft in range(DRAFTS):
        at = draft
        while at > 0:
            sees[draft, at] = True
            at = (at - 1) // 3
        sees[draft, 0] = True
    return sees.cuda()


def slopes(heads):
    """As alibi_slopes(): of a power of two."""
    return torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], device="cuda")


def formulas(heads):
    """name -> (mask, score change)."""
    doc, block, sees, slope = documents(), blocks(), tree(), slopes(heads)
    causal = lambda b, h, q, k: k <= q
    return {
        "text causal": (causal, None),
        "text window": (lambda b, h, q, k: (k <= q) & (q - k < 1024), None),
        "text alibi": (causal, lambda s, b, h, q, k: s + slope[h] * (k - q)),
        "text softcap": (None, lambda s, b, h, q, k: 30.0 * torch.tanh(s / 30.0)),
        "text documents": (lambda b, h, q, k: (k <= q) & (doc[q] == doc[k]), None),
        "text prefix": (lambda b, h, q, k: (k <= q) | (k < LENGTH // 4), None),
        "text blocks": (lambda b, h, q, k: block[q // 128, k // 128], None),
        "text tree": (lambda b, h, q, k: (k < TREE_KEYS - DRAFTS)
                      | sees[q, torch.clamp(k - (TREE_KEYS - DRAFTS), min=0)], None),
    }


def visible_pairs(mask, queries, keys):
    """Pairs of a sequence in tiles of 128 x 128 with a visible pair; all where there is no mask."""
    if mask is None or queries != keys:
        return queries * keys
    tile = 128
    q = torch.arange(queries, device="cuda")[:, None]
    seen = 0
    for first in range(0, keys, tile):
        k = torch.arange(first, first + tile, device="cuda")[None, :]
        kept = mask(0, 0, q, k).expand(queries, tile).reshape(queries // tile, tile, tile)
        seen += int(kept.any(dim=2).any(dim=1).sum())
    return seen * tile * tile


def measure(args):
    """Yields one CSV line a formula and head dimension."""
    compiled = torch.compile(flex_attention, dynamic=False)
    for head_dim in args.head_dim:
        heads = HIDDEN // head_dim
        for name, (mask, change) in formulas(heads).items():
            torch._dynamo.reset()  # else the ninth formula runs uncompiled: there is a limit to recompilations
            queries, keys = (DRAFTS, TREE_KEYS) if name == "text tree" else (LENGTH, LENGTH)
            batch = 32 if name == "text tree" else TOKENS // LENGTH
            make = lambda length: torch.randn(batch, heads, length, head_dim, device="cuda").bfloat16()
            sets = [(make(queries), make(keys), make(keys)) for _ in range(2)]
            shape = f"flex_attention,forward {name},bf16,{batch},{heads},{head_dim},{queries},{keys}"
            try:
                torch.cuda.synchronize()
                start = time.perf_counter()
                block_mask = None if mask is None else create_block_mask(mask, None, None, queries, keys)
                call = lambda s: compiled(*s, score_mod=change, block_mask=block_mask)
                with torch.no_grad():
                    call(sets[0])
                    torch.cuda.synchronize()
                    first = 1e3 * (time.perf_counter() - start)
                    ms = queued_milliseconds(call, sets, args.runs)
            except RuntimeError as refusal:
                yield f"# {shape}: {' '.join(str(refusal).split())[:160]}"
                continue
            median = ms[len(ms) // 2]
            flops = 4 * batch * heads * head_dim * visible_pairs(mask, queries, keys)
            yield (f"{shape},{median:.4f},{ms[0]:.4f},{ms[-1]:.4f},{flops / median / 1e9:.2f},{first:.1f}")
            torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-dim", type=lambda text: [int(d) for d in text.split(",")], default=[64, 128])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--csv")
    args = parser.parse_args()
    report(lambda: f"# torch {torch.__version__}, {torch.cuda.get_device_name()}, {datetime.date.today()}", HEADER,
           measure(args), args.csv)


if __name__ == "__main__":
    main()
