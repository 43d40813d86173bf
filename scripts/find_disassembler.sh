#!/usr/bin/env bash
# Prints the folder that holds cuobjdump and nvdisasm of CUDA 13.
#
#   scripts/find_disassembler.sh   CUDA_HOME's, /usr/local/cuda's or that of the cuobjdump on PATH;
#                                  failing these from PyPI (6 MB), installed into build/sass-venv
#
# Only the path goes to standard output. Exit status 1 where there is none.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/build/sass-venv

accept() {
  [[ -x $1/cuobjdump && -x $1/nvdisasm ]] || return 1
  "$1/cuobjdump" --version | grep -q 'release 1[3-9]\.' || return 1
  readlink -f "$1"
}
accept_wheels() {
  local folder
  for folder in "$root"/build/{cuda,sass}-venv/lib/python3*/site-packages/nvidia/cu13/bin; do
    accept "$folder" && return
  done
  return 1
}

on_path=$(command -v cuobjdump || true)
for folder in "${CUDA_HOME:+$CUDA_HOME/bin}" /usr/local/cuda/bin "${on_path%/*}"; do
  accept "$folder" && exit 0
done
accept_wheels && exit 0

echo "installing cuobjdump and nvdisasm from PyPI into build/sass-venv" >&2
rm -rf "$venv"
python3 -m venv "$venv" >&2
mapfile -t wheels < <(grep -E '^nvidia-cuda-(cuobjdump|nvdisasm)==' "$root/scripts/cuda_requirements.txt")
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "${wheels[@]}" >&2 </dev/null
chmod +x "$venv"/lib/python3*/site-packages/nvidia/cu13/bin/*
accept_wheels || { echo "the wheels hold no working cuobjdump and nvdisasm" >&2; exit 1; }
