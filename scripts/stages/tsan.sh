#!/usr/bin/env bash
# The threaded paths (tests named cpu.* and front.*) under ThreadSanitizer. Nothing else is built: the
# preset's other tests stay unbuilt, and its filter leaves them out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export TSAN_OPTIONS=halt_on_error=1
# On kernels that spread mappings over 32 random bits, this runtime meets "unexpected memory mapping".
fixed_layout=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_layout=(setarch "$(uname -m)" -R); fi
cmake --preset tsan
"${fixed_layout[@]}" cmake --build --preset tsan --target test_cpu test_front -- -k 0
"${fixed_layout[@]}" ctest --preset tsan -j "$(nproc)"
