// What a fuzz target demands of an input that was accepted.
#pragma once

namespace tilefold::fuzz {

/// Stops the fuzzer, as a crash does, when a promise of the parser is broken.
inline void promise(bool kept) {
  if (!kept) __builtin_trap();
}

}  // namespace tilefold::fuzz
