#!/usr/bin/env bash
# Runs the stages of scripts/stages one after the other; each keeps all cores busy by itself.
#
#   scripts/test.sh                    all of them
#   scripts/test.sh release headers    these only
#   scripts/test.sh --list             their names
#
# A stage's output goes to build/logs/<stage>.txt, and to the terminal where it fails or where
# TILEFOLD_VERBOSE=1. A stage that exits with 77 is skipped and its last line says why. Ends with a
# table and a line "N passed, N failed"; exit status 1 if a stage failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Quick refusals first, then what users build, then the slower witnesses.
all=(format layers docs release headers misuse package cuda asan tidy tsan fuzz readme)

if [[ ${1-} == --list ]]; then printf '%s\n' "${all[@]}"; exit 0; fi
stages=("$@")
((${#stages[@]})) || stages=("${all[@]}")
for stage in "${stages[@]}"; do
  if [[ ! -f scripts/stages/$stage.sh ]]; then
    echo "unknown stage '$stage': it must be one of ${all[*]}" >&2
    exit 2
  fi
done

logs=build/logs
mkdir -p "$logs"
export CMAKE_COLOR_DIAGNOSTICS=OFF CLICOLOR=0
passed=0 failed=0 skipped=0 table=()

run_stage() {
  if [[ ${TILEFOLD_VERBOSE-} == 1 ]]; then
    bash "scripts/stages/$1.sh" </dev/null 2>&1 | tee "$2"
  else
    bash "scripts/stages/$1.sh" </dev/null >"$2" 2>&1
  fi
}

# The line that a finished stage is remembered by: tests counted, else its last error or last word.
closing_line() {
  grep -E '^[0-9]+% tests passed' "$1" ||
    { [[ $2 != 0 ]] && grep 'error:' "$1" | tail -n 1 | cut -c 1-160 | grep .; } ||
    grep -v '^[[:space:]]*$' "$1" | tail -n 1
}

for stage in "${stages[@]}"; do
  log=$logs/$stage.txt
  echo "== $stage"
  begin=$SECONDS
  run_stage "$stage" "$log"
  status=$?
  seconds=$((SECONDS - begin))
  case $status in
    0) result=passed; passed=$((passed + 1)) ;;
    77) result=skipped; skipped=$((skipped + 1)) ;;
    *) result=FAILED; failed=$((failed + 1)) ;;
  esac
  if [[ $result == FAILED && ${TILEFOLD_VERBOSE-} != 1 ]]; then
    tail -n 150 "$log"
    echo "-- the whole log: $log"
  fi
  # A stage that passed may have left a part out: it says so in a line of its own.
  grep -E '^skipped: ' "$log"
  line=$(printf '%-8s %-8s %5d s  %s' "$stage" "$result" "$seconds" "$(closing_line "$log" "$status")")
  echo "-- $line"
  table+=("$line")
done

echo
echo "stage    result    time    last word"
printf '%s\n' "${table[@]}"
echo "total ${SECONDS} s on $(nproc) cores; no GPU was used"
if ((skipped)); then
  echo "$passed passed, $failed failed, $skipped skipped"
else
  echo "$passed passed, $failed failed"
fi
((failed == 0))
