#!/usr/bin/env bash
# The parsers of hostile files and of formulas under libFuzzer, each for TILEFOLD_FUZZ_SECONDS (15) from its corpus.
# What the fuzzer finds is kept in build/fuzz/found, a crasher in build/fuzz/crash-*; the corpus in the
# tree is read only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${TILEFOLD_FUZZ_SECONDS:-15}
cmake --preset fuzz
cmake --build --preset fuzz --target npy_fuzz safetensors_fuzz formula_fuzz -- -k 0

fuzz() {
  local format=$1 log=build/fuzz/$1.txt
  shift
  mkdir -p "build/fuzz/found/$format"
  if ! "build/fuzz/${format}_fuzz" -max_total_time="$seconds" -print_final_stats=1 \
      -artifact_prefix=build/fuzz/ "$@" "build/fuzz/found/$format" "tests/fuzz/corpus/$format" \
      >"$log" 2>&1; then
    tail -n 60 "$log"
    return 1
  fi
  echo "$format: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
}
fuzz npy & first=$!
fuzz safetensors -dict=tests/fuzz/safetensors.dict & second=$!
fuzz formula -dict=tests/fuzz/formula.dict & third=$!
wait "$first"
wait "$second"
wait "$third"
echo "$seconds s each, no crash"
