#!/usr/bin/env bash
# The main job, from files to a file: one local layer of a real model (Gemma 3, 1280 tokens, a window
# of 512), checked against the float64 reference and set beside the attention that stores every score.
# Needs build/tilefold: `make demo` builds it first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=build/demo/out.safetensors
mkdir -p "$(dirname "$out")"

# Prints a command as a person would type it, then runs it.
show_and_run() {
  printf '$ %s\n' "$*"
  "$@"
}

echo "q, k and v of one layer, bf16: 4 query heads share 1 key head of 256; each token sees the 512"
echo "latest ones, itself included. Where they come from: examples/data/README.md"
echo
layer=examples/data/gemma3_layer.safetensors
show_and_run build/tilefold attend --query $layer:q --key $layer:k --value $layer:v \
  --causal --window 511 --scale 0.0625 --explain --check --compare-materialised --out "$out"
echo
echo "What to try next:"
echo "  build/tilefold attend --query $layer:q --key $layer:k --value $layer:v --causal --check"
echo "                                    # the same without the window"
echo "  build/tilefold attend --help      # every option, with units"
echo "  build/tilefold --help             # the other commands"
echo "  make test                         # everything CI runs"
