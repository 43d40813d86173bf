#!/usr/bin/env bash
# Tables of the documentation say what the files behind them hold: bench/results/ and
# tests/cuda/kernel_budgets.csv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python3 scripts/ladder_doc.py --check
python3 scripts/forward_doc.py --check
python3 scripts/run_time_doc.py --check
python3 scripts/register_doc.py --check
echo "4 scripts, every table as it is measured"
