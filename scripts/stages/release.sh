#!/usr/bin/env bash
# The g++ Release build of everything, and every test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cmake --preset release
cmake --build build -- -k 0
ctest --preset release -j "$(nproc)"
