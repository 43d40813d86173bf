#!/usr/bin/env bash
# Every header compiles alone: the public ones under g++ and clang++ with include/ as the only include
# path and no third party among what they read; tilefold.h as C99 too; those of src/ under g++.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=build/headers
mkdir -p "$out"

warnings=(-Wall -Wextra -Wpedantic -Wshadow -Werror)

# compile COMPILER STANDARD HEADER-AS-INCLUDED FLAG...
compile() {
  local compiler=$1 standard=$2 header=$3 language=c++ report
  shift 3
  [[ $standard == c[0-9]* ]] && language=c
  report=$out/$compiler-$standard-${header//\//-}.txt
  # Twice: a header without a guard against it fails. -H lists the files read, a line of dots each.
  if ! printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
      "$compiler" "-std=$standard" "${warnings[@]}" "$@" -fsyntax-only -H \
        -x "$language" - 2>"$report"; then
    echo "$header does not compile alone under $compiler -std=$standard"
    grep -v '^\.' "$report"
    return 1
  fi
  if [[ " $* " != *' -Isrc '* ]] &&
      grep -E '^\.+ .*/(hwy|tbb|oneapi|fmt|nlohmann|CLI|gtest)/' "$report"; then
    echo "$header reads a third party's header"
    return 1
  fi
}
export -f compile
export out
export warnings_text="${warnings[*]}"

jobs=()
public=0 internal=0
while IFS= read -r path; do
  header=${path#include/}
  for compiler in g++ clang++-14; do
    jobs+=("$compiler c++20 $header -Iinclude")
  done
  public=$((public + 1))
done < <(scripts/list_files.sh 'include/*.hpp' 'include/*.h')
for path in include/tilefold/*.h; do
  [[ -e $path ]] || continue
  for compiler in gcc clang-14; do jobs+=("$compiler c99 ${path#include/} -Iinclude"); done
done
# The -inl.h files of Highway are text for its foreach_target, not headers.
while IFS= read -r path; do
  jobs+=("g++ c++20 ${path#src/} -Iinclude -Isrc -mavx512f -mavx512bw -mavx512bf16")
  internal=$((internal + 1))
done < <(scripts/list_files.sh 'src/*.hpp')

# shellcheck disable=SC2016  # expanded by the inner shell
printf '%s\n' "${jobs[@]}" | xargs -P "$(nproc)" -I{} bash -c '
  read -ra warnings <<<"$warnings_text"; read -ra arguments <<<"$1"; compile "${arguments[@]}"' _ {}
echo "$public public headers under g++ and clang++, $internal internal ones under g++"
