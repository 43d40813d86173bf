#!/usr/bin/env bash
# Every test that needs a GPU, from a staged folder:
#   scripts/gpu_tests.sh [STAGE] [--out FOLDER] [--kernels PREFIX] [--cases N] [--no-sanitize]
#   scripts/gpu_tests.sh [STAGE] --soak SECONDS [--soak-seed S] [--out FOLDER] [--kernels PREFIX]
#
# STAGE (build/stage) holds bin/ and lib/. Programs write to FOLDER ($OUT/gpu_tests, or
# build/gpu_tests): steps.txt, matrix.txt, one file a sanitizer tool, and summary.txt, the table that
# ends the run. compute-sanitizer's four tools run beside the other steps. --kernels takes only
# kernels whose names begin so ("sm80 bf16 d128") and leaves out the steps that need them all.
# --cases: random problems of the largest step (2000). Sized for 240 s on 16 cores and one H200.
#
# --soak runs random problems of each family of tensor-core kernels and nothing else, chunk after
# chunk, the families in turn, until the time is over. Seeds follow each other from S (1000001);
# soak.txt gets a line a chunk, with the words that draw it again, and is never emptied.
# Exit code 77 where there is no device, and the reason.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

stage=build/stage out=${OUT:+$OUT/gpu_tests} kernels='' cases=2000 sanitize=yes
soak='' soak_seed=1000001
out=${out:-build/gpu_tests}
while (($#)); do
  case $1 in
    --out | --kernels | --cases | --soak | --soak-seed)
      (($# > 1)) || { echo "$1 needs a value" >&2; exit 2; }
      variable=${1#--}
      printf -v "${variable/-/_}" '%s' "$2"
      shift
      ;;
    --no-sanitize) sanitize=no ;;
    --sanitize) sanitize=yes ;;
    -*) echo "$1 is no option: see the head of this file" >&2; exit 2 ;;
    *) stage=$1 ;;
  esac
  shift
done
[[ $cases =~ ^[1-9][0-9]*$ ]] || { echo "--cases is '$cases': a whole number from 1" >&2; exit 2; }
[[ $soak =~ ^([1-9][0-9]*)?$ ]] || { echo "--soak is '$soak': seconds from 1" >&2; exit 2; }
[[ $soak_seed =~ ^[0-9]{1,18}$ ]] || { echo "--soak-seed is '$soak_seed': a whole number" >&2; exit 2; }
bin=$stage/bin tool=$stage/bin/tilefold
[[ -x $tool ]] || { echo "$tool is not there: cmake --build build --target stage" >&2; exit 2; }
export LD_LIBRARY_PATH=$PWD/$stage/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
[[ -z $kernels ]] || export TILEFOLD_CUDA_KERNELS=$kernels

"$tool" info | grep 'CUDA device'
if ! "$tool" info | grep -q '^CUDA device   [^n]'; then
  echo "skipped: no CUDA device"
  exit 77
fi
mkdir -p "$out"
[[ -n $soak ]] || rm -f "$out"/{steps,matrix,summary}.txt "$out"/{mem,race,init,sync}check-*.txt
rows=() failed=0

# row NAME RESULT SECONDS FILE: a line of the table, with the last words of the step's output.
row() {
  local last
  last=$(grep -a '[^[:space:]]' "$4" | tail -n 1 | cut -c 1-100)
  rows+=("$(printf '%-34s %-9s %4s s  %s' "$1" "$2" "$3" "$last")")
  [[ $2 == passed ]] || failed=$((failed + 1))
  echo "== ${rows[-1]}"
}

# complain FILE: what a step says of its failures; `verify` says it before all that was refused.
complain() {
  grep -a -m 6 -A 14 '^FAILED' "$1" | cut -c 1-300
  grep -av '^  refused' "$1" | tail -n 30 | cut -c 1-300
}

# step NAME LIMIT COMMAND...: runs it for at most LIMIT seconds, its output into steps.txt.
step() {
  local name=$1 limit=$2 begin=$SECONDS code file
  shift 2
  file=$(mktemp)
  timeout "$limit" "$@" >"$file" 2>&1
  code=$?
  # Problems that were all refused show nothing.
  if ((code == 0)) && [[ " $* " == *" verify "* && " $* " != *" --matrix "* ]] &&
    ! grep -q '^verify: .*: [1-9][0-9]* passed, 0 failed' "$file"; then
    echo "no problem passed" >>"$file"
    code=1
  fi
  { echo "==== $name: $*"; cat "$file"; } >>"$out/steps.txt"
  [[ " $* " != *" --matrix "* ]] || cp "$file" "$out/matrix.txt"
  case $code in
    0) row "$name" passed $((SECONDS - begin)) "$file" ;;
    124) row "$name" "TIMED OUT" $((SECONDS - begin)) "$file" ;;
    *) complain "$file"; row "$name" FAILED $((SECONDS - begin)) "$file" ;;
  esac
  rm -f "$file"
}

# in_parts N PROGRAM...: its tests in N processes at once.
in_parts() {
  local parts=$1 part code=0 processes=()
  shift
  for ((part = 0; part < parts; ++part)); do
    GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part "$@" &
    processes+=($!)
  done
  for part in "${processes[@]}"; do wait "$part" || code=$?; done
  return $code
}
export -f in_parts

# The families whose kernels run here and are asked for.
families=()
for family in sm90 sm80; do
  [[ $family == sm80 ]] || "$tool" info | grep -q 'compute capability 9\.0' || continue
  [[ -z $kernels || $kernels == "$family"* ]] && families+=("$family")
done

# A run of each tool over problems as they come, of which most are too odd for tensor cores, and one over
# each family's own.
declare -A sanitizers=()
# sanitize_command NAME LIMIT COMMAND...: in the background, its output into NAME.txt.
sanitize_command() {
  local name=$1 limit=$2
  shift 2
  (
    begin=$SECONDS
    timeout "$limit" "$@"
    code=$?
    echo "took $((SECONDS - begin)) s"
    exit $code
  ) >"$out/$name.txt" 2>&1 &
  sanitizers[$name]=$!
}
start_sanitizers() {
  local sanitizer tool_name family checked
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  if [[ ! -x $sanitizer ]]; then
    rows+=("$(printf '%-34s %-9s' 'compute-sanitizer' 'ABSENT')")
    failed=$((failed + 1))
    return
  fi
  local problems=(verify --backend cuda --cases 30 --seed 900 --work 1e5 --workers 1)
  for tool_name in memcheck racecheck initcheck synccheck; do
    checked=("$sanitizer" --tool "$tool_name" --error-exitcode 9)
    sanitize_command "$tool_name-all" 200 "${checked[@]}" "$tool" "${problems[@]}"
    for family in "${families[@]}"; do
      sanitize_command "$tool_name-$family" 200 env TILEFOLD_CUDA_KERNELS="${kernels:-$family}" \
        "${checked[@]}" "$tool" "${problems[@]}" --family "$family"
    done
    # Kernels that NVRTC compiles, and those that build cells.
    [[ -z $kernels && -x $bin/test_cuda_jit ]] || continue
    sanitize_command "$tool_name-formulas" 250 "${checked[@]}" "$bin/test_cuda_jit" \
      --gtest_filter='*ProgramOnDevice.SeesNewValues*:*ProgramOnDevice.ReadsTensors*'
  done
}
await_sanitizers() {
  local tool_name code seconds file
  for tool_name in "${!sanitizers[@]}"; do
    wait "${sanitizers[$tool_name]}"
    code=$?
    file=$(mktemp)
    grep -a 'ERROR SUMMARY\|RACECHECK SUMMARY' "$out/$tool_name.txt" >"$file" ||
      echo "no summary: see $tool_name.txt" >"$file"
    seconds=$(sed -n 's/^took \([0-9]*\) s$/\1/p' "$out/$tool_name.txt")
    case $code in
      0) row "compute-sanitizer $tool_name" passed "$seconds" "$file" ;;
      124) row "compute-sanitizer $tool_name" "TIMED OUT" "$seconds" "$file" ;;
      *) row "compute-sanitizer $tool_name" FAILED "$seconds" "$file" ;;
    esac
    rm -f "$file"
  done
}

# soak_chunk FAMILY SEED CASES WORK: into soak.txt, steps.txt where problems failed, and $counts.
soak_chunk() {
  local begin=$SECONDS file code words result
  words="--family $1 --seed $2 --cases $3 --work $4"
  file=$(mktemp)
  # shellcheck disable=SC2086  # several words
  TILEFOLD_CUDA_KERNELS=${kernels:-$1} timeout 300 "$tool" verify --backend cuda $words >"$file" 2>&1
  code=$?
  counts=$(sed -n 's/^verify: .* on cuda: //p' "$file")
  result="${counts:-no summary, exit code $code}"
  printf '%s kernels %s: verify %s: %s, %s s\n' "$(date -u +%FT%TZ)" "${kernels:-$1}" "$words" \
    "$result" $((SECONDS - begin)) | tee -a "$out/soak.txt"
  if ((code)) || [[ $counts != [1-9]* ]]; then
    { echo "==== soak, $words"; cat "$file"; } >>"$out/steps.txt"
    grep -a -m 3 -A 12 '^FAILED' "$file" || tail -n 5 "$file"
    rm -f "$file"
    return 1
  fi
  rm -f "$file"
}

# Pairs of chunks, one of each family: three times 4000 small problems, then 1000 of up to eight times
# the work, which take as long.
run_soak() {
  local begin=$SECONDS seed=$soak_seed pair=0 size work bad=0 passed=0 file
  file=$(mktemp)
  while ((SECONDS - begin < soak)); do
    size=4000 work=3e6
    ((pair % 4 == 3)) && size=1000 work=2.4e7
    for family in "${families[@]}"; do
      ((SECONDS - begin < soak)) || break
      soak_chunk "$family" "$seed" "$size" "$work" || bad=$((bad + 1))
      [[ ! $counts =~ ^([0-9]+)\ passed ]] || passed=$((passed + BASH_REMATCH[1]))
      seed=$((seed + size))
    done
    pair=$((pair + 1))
  done
  echo "$passed passed, $bad chunks failed; seeds from $soak_seed to $((seed - 1))" >"$file"
  row "soak" "$( ((bad)) && echo FAILED || echo passed)" $((SECONDS - begin)) "$file"
  rm -f "$file"
}

print_summary() {
  {
    printf '%-34s %-9s %6s  %s\n' step result time "last word"
    printf '%s\n' "${rows[@]}"
    echo "total $((SECONDS - whole)) s; ${#rows[@]} steps, $failed failed" \
      "${kernels:+(only kernels named $kernels...)}"
  } | tee "$out/summary.txt"
}

whole=$SECONDS
if [[ -n $soak ]]; then
  ((${#families[@]})) || { echo "no family to soak: --kernels is '$kernels'" >&2; exit 2; }
  run_soak
  print_summary
  exit $((failed != 0))
fi
[[ $sanitize == no ]] || start_sanitizers
if [[ -z $kernels ]]; then
  # Among them: graphs that are captured and replayed, poisoned memory, refusals of a run.
  for program in "$bin"/test_*; do
    # Formulas from text are compiled there, seconds each: parts of it side by side.
    if [[ $program == *_jit ]]; then
      step "$(basename "$program")" 300 bash -c 'in_parts "$@"' - 6 "$program" --gtest_brief=1
    else
      step "$(basename "$program")" 150 "$program" --gtest_brief=1
    fi
  done
  step "matrix of options" 120 "$tool" verify --matrix --cases 8
fi
step "random problems" 150 "$tool" verify --backend cuda --cases $((cases * (${#kernels} ? 4 : 1)))
[[ -n $kernels ]] || step "random problems, plain loads" 120 env TILEFOLD_CUDA_KERNELS=any \
  "$tool" verify --backend cuda --cases $((cases / 2 + 1)) --seed 100001
step "100 runs, the same bits" 120 "$tool" verify --backend cuda --cases 40 --seed 200001 \
  --work 3e5 --repeat 100
for family in "${families[@]}"; do
  step "1000 runs, the same bits, $family" 120 env TILEFOLD_CUDA_KERNELS="${kernels:-$family}" \
    "$tool" verify --backend cuda --family "$family" --cases 20 --seed 300001 --work 1e5 --repeat 1000
done
step "handed cases" 60 "$tool" cases --backend cuda tests/cases/handed.jsonl
layer=examples/data/gemma3_layer.safetensors
step "attend, to the device and back" 60 "$tool" attend --backend cuda --query $layer:q \
  --key $layer:k --value $layer:v --causal --window 511 --check --out "$out/layer.safetensors:out"
[[ $sanitize == no ]] || await_sanitizers

print_summary
((failed == 0))
