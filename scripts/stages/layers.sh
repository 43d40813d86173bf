#!/usr/bin/env bash
# Who includes whom, and what no file may hold: see scripts/check_layers.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python3 scripts/check_layers.py
