#!/usr/bin/env bash
# clang-tidy 14 with the checks of .clang-tidy over what the asan preset compiles of src/ and apps/ (no
# CUDA: its units need headers that a build with a toolkit generates). Sources that the preset joins
# (cmake/TilefoldJoined.cmake) are read together, which is what makes this quick.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ -f build/asan/compile_commands.json ]] || cmake --preset asan
mapfile -t files < <(scripts/list_files.sh 'src/*.cpp' 'apps/*.cpp' | python3 -c '
import json, os, re, sys
root = os.getcwd()
built = [os.path.realpath(e["file"]) for e in json.load(open("build/asan/compile_commands.json"))]
wanted = {os.path.realpath(f) for f in sys.stdin.read().split()}
read = set()
for file in sorted(set(built)):
    parts = {file}
    if re.search("/(src|apps)/.*/Unity/unity_[0-9]+_cxx.cxx$", file):
        parts = {os.path.realpath(f) for f in re.findall("#include \"(.*)\"", open(file).read())}
    if parts <= wanted and not parts <= read:
        read |= parts
        print(file)
# Each source once: joined, or alone.
missing = {f for f in wanted & set(built) if f not in read}
sys.exit(f"not read: {sorted(missing)}" if missing else 0)')
((${#files[@]})) || { echo "no file to read"; exit 1; }
# A joined file includes sources, as it must. The count of warnings that are not shown is of system
# headers: noise.
printf '%s\0' "${files[@]}" |
  xargs -0 -P "$(nproc)" -n 1 clang-tidy-14 -p build/asan --quiet --checks=-bugprone-suspicious-include \
    2> >(grep -v ' generated\.$' >&2)
echo "${#files[@]} files"
