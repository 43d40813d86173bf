#!/usr/bin/env bash
# The commands and programs of README.md do what they say: see scripts/check_readme.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python3 scripts/check_readme.py README.md
