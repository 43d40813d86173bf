#!/usr/bin/env bash
# Misuse that must not compile. Each tests/compile_fail/*.cpp compiles as it stands and is refused with
# -DMISUSE, under g++ and clang++, with a message that matches one of its "// expect:" patterns (grep -E).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

check() {
  local compiler=$1 file=$2 pattern message
  local flags=(-std=c++20 -Iinclude -Wall -Wextra -Werror -fsyntax-only)
  pattern=$(sed -n 's|^// expect: ||p' "$file" | paste -sd '|')
  if [[ -z $pattern ]]; then
    echo "$file has no '// expect:' line"
    return 1
  fi
  if ! "$compiler" "${flags[@]}" "$file"; then
    echo "$file: the right use does not compile under $compiler"
    return 1
  fi
  if message=$("$compiler" "${flags[@]}" -DMISUSE "$file" 2>&1); then
    echo "$file: the misuse compiles under $compiler"
    return 1
  fi
  # Only the errors themselves: notes and quoted source would match too easily.
  if ! grep -E 'error:' <<<"$message" | grep -qE "$pattern"; then
    echo "$file: $compiler refuses it, but not for /$pattern/:"
    grep -E 'error:' <<<"$message"
    return 1
  fi
}
export -f check

files=(tests/compile_fail/*.cpp)
for file in "${files[@]}"; do printf '%s\n' "g++ $file" "clang++-14 $file"; done |
  xargs -P "$(nproc)" -L 1 bash -c 'check "$@"' _
echo "${#files[@]} misuses refused by g++ and clang++"
