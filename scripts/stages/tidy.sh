#!/usr/bin/env bash
# clang-tidy 14 with the checks of .clang-tidy over src/ and apps/. Reads the clang preset's commands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ -f build/clang/compile_commands.json ]] || cmake --preset clang
mapfile -t files < <(scripts/list_files.sh 'src/*.cpp' 'apps/*.cpp')
# Its count of the warnings it does not show is of system headers: noise.
printf '%s\0' "${files[@]}" |
  xargs -0 -P "$(nproc)" -n 1 clang-tidy-14 -p build/clang --quiet \
    2> >(grep -v ' generated\.$' >&2)
echo "${#files[@]} files"
