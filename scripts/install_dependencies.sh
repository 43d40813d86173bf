#!/usr/bin/env bash
# Installs the Debian packages that the build, the tests and the checks need, where they are missing.
#
#   scripts/install_dependencies.sh           installs what is missing (as root, or through sudo)
#   scripts/install_dependencies.sh --check   only says what is missing; exit 1 if anything is
#
# Silent when nothing is missing. docs/building.md says what each package is for.
set -euo pipefail

packages=(
  make g++ cmake ninja-build ccache
  clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14
  libhwy-dev libtbb-dev libfmt-dev nlohmann-json3-dev libcli11-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-venv ca-certificates
)

mode=install
case "${1-}" in
  '') ;;
  --check) mode=check ;;
  *) echo "unknown argument '$1': it must be --check or absent" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "not a Debian machine: nothing is installed, and these packages' counterparts are taken for granted:"
  echo "  ${packages[*]}"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

if [[ $mode == check ]]; then
  echo "missing packages: ${missing[*]}"
  exit 1
fi

as_root=()
if [[ $(id -u) != 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "missing packages, and neither root nor sudo to install them. As root:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A mirror in the middle of an update answers with an error: three tries.
apt_get() {
  local try
  for try in 1 2 3; do
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >"$log" 2>&1 </dev/null &&
      return
    echo "apt-get $1 failed, try $try of 3" >&2
    sleep 5
  done
  tail -n 40 "$log" >&2
  return 1
}
apt_get update
apt_get install --no-install-recommends "${missing[@]}"
