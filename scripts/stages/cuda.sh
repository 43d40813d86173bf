#!/usr/bin/env bash
# The formula headers through nvcc and, from memory, through NVRTC; every kernel for 80, 90a and 100a,
# held to its budget (scripts/kernel_budgets.py), and the machine code of sm90's to what its speed
# stands on (scripts/sass_check.py). No GPU is needed.
#
# Where no nvcc 13 can be had: skipped (exit 77), or failed under TILEFOLD_REQUIRE_CUDA=1, as in CI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tests/cuda/kernel_budgets_test.py
tests/cuda/sass_check_test.py
if ! nvcc=$(scripts/find_nvcc.sh); then
  echo "no nvcc 13: neither installed nor to be had from PyPI"
  [[ ${TILEFOLD_REQUIRE_CUDA-} == 1 ]] && exit 1
  exit 77
fi
toolkit=$(dirname "$(dirname "$nvcc")")
for nvrtc in "$toolkit"/lib64/libnvrtc.so.13 "$toolkit"/lib/libnvrtc.so.13; do
  [[ -e $nvrtc ]] && break
done
echo "nvcc:  $nvcc"
echo "nvrtc: $nvrtc"

out=build/cuda-headers
mkdir -p "$out"
source=tests/headers/score_kernel.cu
flags=(-std=c++20 -Iinclude --Werror all-warnings -Xcompiler '-Wall,-Wextra,-Werror')

g++ -std=c++20 -Wall -Wextra -Wshadow -Werror -O1 tests/headers/compile_with_nvrtc.cpp \
  -o "$out/compile_with_nvrtc" -ldl &
jit_build=$!
# The object holds host stubs as well: -cubin alone would hide a broken one.
"$nvcc" "${flags[@]}" --threads 2 -gencode arch=compute_80,code=sm_80 \
  -gencode arch=compute_90a,code=sm_90a -c "$source" -o "$out/score_kernel.o"
echo "nvcc: sm_80 and sm_90a, object of $(stat -c %s "$out/score_kernel.o") bytes"
wait "$jit_build"

headers=(tilefold/fold.hpp)
for header in include/tilefold/score/*.hpp; do headers+=("${header#include/}"); done
for arch in sm_80 sm_90a; do
  (cd "$out" && ./compile_with_nvrtc "$nvrtc" ../../include "../../$source" "$arch" "${headers[@]}")
done
echo "${#headers[@]} headers through nvcc and NVRTC, sm_80 and sm_90a"

# The release build's folder where it found this nvcc, which saves a second build; else one apart.
folder=build
if ! grep -qs tilefold_kernels_100a build/build.ninja; then
  folder=build/cuda
  cmake --preset cuda -DCMAKE_CUDA_COMPILER="$nvcc"
fi
cmake --build "$folder" --target tilefold_kernels tilefold_rungs tilefold_kernels_100a kernel_listing
NVCC=$nvcc tests/cuda/kernel_budgets_test.py RealCompiler
scripts/kernel_table.py --build "$folder"
scripts/kernel_budgets.py --build "$folder"
scripts/sass_check.py --build "$folder"
