#!/usr/bin/env bash
# Lists the repository's own files, one a line, relative to its root: those of git, and those not yet
# added that git does not ignore. Arguments are git path patterns ('*.cpp'). Without git, as in a
# release archive: every file outside build folders.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if git rev-parse --git-dir >/dev/null 2>&1; then
  git ls-files --cached --others --exclude-standard -- "$@" | sort -u |
    while IFS= read -r file; do [[ -f $file ]] && printf '%s\n' "$file"; done
else
  tests=(-true)
  for pattern in "$@"; do
    [[ ${#tests[@]} == 1 ]] && tests=(-false)
    tests+=(-o -path "./$pattern")
  done
  find . \( -path './build*' -o -path ./.git \) -prune -o -type f \( "${tests[@]}" \) -print |
    sed 's|^\./||' | sort -u
fi
