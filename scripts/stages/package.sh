#!/usr/bin/env bash
# The installed package serves a C++ and a C program outside the tree, as a static and as a shared
# library, from a prefix that was moved after the installation. Where the build has the CUDA backend,
# examples/cuda is built against it too, and run where there is a device. Needs the release build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
out=$root/build/package
mkdir -p "$out"

# The shared library's objects differ from the static one's by one definition that no source reads:
# ccache finds them all.
cmake --preset release -B "$out/shared-build" -DBUILD_SHARED_LIBS=ON -DTILEFOLD_TESTS=OFF -DTILEFOLD_CUDA=OFF \
  -DTILEFOLD_TOOLS=OFF >"$out/shared-configure.txt"
cmake --build "$out/shared-build" -- -k 0

if grep -rqs 'tilefold_attend' src --include='*.cpp'; then languages=(cpp c); else languages=(cpp); fi

# consume KIND BUILD: installs BUILD and runs the consumers of it.
consume() {
  local kind=$1 build=$2 language said
  local moved=$out/$kind/moved
  rm -rf "${out:?}/$kind"
  cmake --install "$build" --prefix "$out/$kind/first" >"$out/install-$kind.txt"
  mv "$out/$kind/first" "$moved"
  if grep -rnF "$root/include" "$moved/lib" --include='*.cmake'; then
    echo "the installed package points into the source tree"
    return 1
  fi
  for language in "${languages[@]}"; do
    cmake -G Ninja -S "tests/package/$language" -B "$out/$kind/$language" \
      -DCMAKE_PREFIX_PATH="$moved" >"$out/configure-$kind-$language.txt"
    cmake --build "$out/$kind/$language"
    said=$("$out/$kind/$language/consumer") || { echo "$kind, $language: $said"; return 1; }
    echo "$kind, $language: $said"
  done
}
consume static build

cuda_example() {
  local example=$out/static/cuda program status said
  if ! grep -qs tilefold_kernels build/build.ninja; then
    echo "skipped: examples/cuda, the build has no CUDA"
    return
  fi
  cmake -G Ninja -S examples/cuda -B "$example" -DCMAKE_PREFIX_PATH="$out/static/moved" \
    >"$out/configure-static-cuda.txt"
  cmake --build "$example"
  for program in attend_on_gpu own_mask; do
    status=0
    said=$("$example/$program") || status=$?
    echo "static, examples/cuda/$program: $said"
    ((status == 77)) && echo "skipped: the run of examples/cuda/$program, $said"
    ((status == 0 || status == 77)) || return 1
  done
}
cuda_example
consume shared "$out/shared-build"

echo "static and shared, ${languages[*]}"
[[ ${#languages[@]} == 2 ]] || echo "skipped: the C program, src/ does not implement tilefold.h yet"
