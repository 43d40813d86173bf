#!/usr/bin/env bash
# Every test that needs a GPU, from a staged folder: scripts/gpu_tests.sh [build/stage] [--sanitize]
#
# Runs the GPU test programs, `tilefold verify --backend cuda` and the handed cases. With --sanitize:
# compute-sanitizer's four tools over 40 small random problems each. Says so and exits with 77 where
# there is no device.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
stage=build/stage sanitize=no
for argument in "$@"; do
  if [[ $argument == --sanitize ]]; then sanitize=yes; else stage=$argument; fi
done
bin=$stage/bin
export LD_LIBRARY_PATH=$PWD/$stage/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

if ! "$bin/tilefold" info | grep -q '^CUDA device   [^n]'; then
  "$bin/tilefold" info | grep 'CUDA device'
  echo "skipped: no CUDA device"
  exit 77
fi
"$bin/tilefold" info | grep 'CUDA device'

failed=0
step() {
  local name=$1 begin=$SECONDS
  shift
  if "$@"; then echo "== $name: passed in $((SECONDS - begin)) s"; else
    echo "== $name: FAILED"
    failed=$((failed + 1))
  fi
}
for program in "$bin"/test_*; do step "$(basename "$program")" "$program" --gtest_brief=1; done
step "random problems" "$bin/tilefold" verify --backend cuda --cases "${TILEFOLD_CASES:-300}"
step "random problems, plain-load kernels" \
  env TILEFOLD_CUDA_KERNELS=any "$bin/tilefold" verify --backend cuda --cases "${TILEFOLD_CASES:-300}"
step "handed cases" "$bin/tilefold" cases --backend cuda tests/cases/handed.jsonl

if [[ $sanitize == yes ]]; then
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  for tool in memcheck racecheck initcheck synccheck; do
    step "compute-sanitizer $tool" "$sanitizer" --tool "$tool" --error-exitcode 9 \
      "$bin/tilefold" verify --backend cuda --cases 40 --seed 900 --work 1e5
  done
fi
echo "$failed failed"
((failed == 0))
