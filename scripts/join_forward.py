#!/usr/bin/env python3
"""Joins what one run on a card measured into one file of bench/results: `tilefold bench forward --csv` and
`bench/peers/torch_sdpa.py --csv`.

    scripts/join_forward.py FORWARD.csv TORCH.csv > bench/results/<date>-<card>-forward.csv

Rows of PyTorch become peers `pytorch fa2` and `pytorch cudnn` under the columns of the first file; the comments of
both head the result. scripts/forward_doc.py reads it.
"""
import csv
import pathlib
import sys

from ladder_doc import read_results


def of_torch(row, columns):
    heads = row["heads"]
    known = {"peer": "pytorch " + row["peer"], "mode": "queued", "op": "forward", "dtype": row["dtype"],
             "batch": row["batch"], "heads_q": heads, "heads_kv": heads, "hdim": row["hdim"],
             "seqlen_q": row["seqlen_q"], "seqlen_k": row["seqlen_k"], "causal": row["causal"], "window": 0,
             "ms": row["ms"], "fastest_ms": row["fastest_ms"], "slowest_ms": row["slowest_ms"],
             "rate": f"{float(row['tflops']):.1f}", "unit": "TFLOPS"}
    return {column: known.get(column, "") for column in columns}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    comments, ours = read_results(pathlib.Path(sys.argv[1]))
    peer_comments, peers = read_results(pathlib.Path(sys.argv[2]))
    columns = list(ours[0])
    print("\n".join(comments + peer_comments))
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(ours + [of_torch(row, columns) for row in peers])


if __name__ == "__main__":
    main()
