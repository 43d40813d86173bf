#!/usr/bin/env bash
# Everything compiles under clang++ without a warning. Not optimised: the code is not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cmake --preset clang
cmake --build --preset clang -- -k 0
echo "$(find build/clang -name '*.o' | wc -l) objects without a warning"
