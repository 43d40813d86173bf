#!/usr/bin/env bash
# Every C, C++ and CUDA file is as clang-format 14 writes it. Another version formats differently.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mapfile -t files < <(scripts/list_files.sh '*.cpp' '*.hpp' '*.h' '*.c' '*.cu' '*.cuh')
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 16 clang-format-14 --dry-run -Werror
echo "${#files[@]} files"
