#!/usr/bin/env bash
# Everything compiles under clang++ without a warning, and every test passes under AddressSanitizer and
# UndefinedBehaviorSanitizer; a leak is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
cmake --preset asan
cmake --build --preset asan -- -k 0
ctest --preset asan -j "$(nproc)"
