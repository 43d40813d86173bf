#!/usr/bin/env bash
# clang-tidy 14 with the checks of .clang-tidy over what the asan preset compiles of src/ and apps/ (no
# CUDA: its units need headers that a build with a toolkit generates).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ -f build/asan/compile_commands.json ]] || cmake --preset asan
mapfile -t files < <(scripts/list_files.sh 'src/*.cpp' 'apps/*.cpp' | python3 -c '
import json, os, sys
built = {os.path.realpath(e["file"]) for e in json.load(open("build/asan/compile_commands.json"))}
print("\n".join(f for f in sys.stdin.read().split() if os.path.realpath(f) in built))')
((${#files[@]})) || { echo "no file to read"; exit 1; }
# Its count of the warnings it does not show is of system headers: noise.
printf '%s\0' "${files[@]}" |
  xargs -0 -P "$(nproc)" -n 1 clang-tidy-14 -p build/asan --quiet \
    2> >(grep -v ' generated\.$' >&2)
echo "${#files[@]} files"
