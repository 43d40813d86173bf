#!/usr/bin/env bash
# Prints the path of an nvcc of CUDA 13.0 or later, whose toolkit also holds NVRTC.
#
#   scripts/find_nvcc.sh            from CUDA_HOME, /usr/local/cuda or PATH; failing these from PyPI,
#                                   installed into build/cuda-venv
#   scripts/find_nvcc.sh --wheels   from PyPI, whatever else the machine has
#   scripts/find_nvcc.sh --no-install   fails where an installed one is not found
#
# Only the path goes to standard output. The wheels take about 200 MB to fetch, 600 MB on disk.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/build/cuda-venv

look_at_installed=yes install=yes
case "${1-}" in
  '') ;;
  --wheels) look_at_installed=no ;;
  --no-install) install=no ;;
  *) echo "unknown argument '$1': it must be --wheels, --no-install or absent" >&2; exit 2 ;;
esac

# The first libnvrtc of the toolkit whose root is $1.
nvrtc_of() {
  local library
  for library in "$1"/lib64/libnvrtc.so.13 "$1"/lib/libnvrtc.so.13; do
    [[ -e $library ]] && echo "$library" && return
  done
  return 1
}

# Prints nvcc's path and succeeds where $1 is an nvcc >= 13.0 that has NVRTC beside it.
accept() {
  local nvcc=$1 major toolkit
  [[ -x $nvcc ]] || return 1
  nvcc=$(readlink -f "$nvcc")
  toolkit=$(dirname "$(dirname "$nvcc")")
  major=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  [[ ${major:-0} -ge 13 ]] || return 1
  nvrtc_of "$toolkit" >/dev/null || return 1
  echo "$nvcc"
}

if [[ $look_at_installed == yes ]]; then
  for candidate in "${CUDA_HOME:+$CUDA_HOME/bin/nvcc}" /usr/local/cuda/bin/nvcc \
                   "$(command -v nvcc || true)"; do
    accept "$candidate" && exit 0
  done
fi

accept_wheels() {
  local candidate
  for candidate in "$venv"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc; do
    accept "$candidate" && return
  done
  return 1
}
accept_wheels && exit 0

if [[ $install == no ]]; then
  echo "no nvcc 13.0 or later at CUDA_HOME, /usr/local/cuda or on PATH" >&2
  exit 1
fi

echo "installing nvcc 13.0 from PyPI into build/cuda-venv" >&2
rm -rf "$venv"
python3 -m venv "$venv" >&2
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
  --requirement "$root/scripts/cuda_requirements.txt" >&2 </dev/null
# nvcc.profile and CMake look for lib64 and for libcudart.so without a version.
for toolkit in "$venv"/lib/python3*/site-packages/nvidia/cu13; do
  chmod +x "$toolkit"/bin/* "$toolkit"/nvvm/bin/*
  [[ -e $toolkit/lib64 ]] || ln -s lib "$toolkit/lib64"
  [[ -e $toolkit/lib/libcudart.so ]] || ln -s libcudart.so.13 "$toolkit/lib/libcudart.so"
done
accept_wheels || { echo "the wheels hold no working nvcc 13.0" >&2; exit 1; }
