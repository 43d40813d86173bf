// An element type that no tensor has is refused, not reinterpreted.
// expect: no matching (function|constructor).*TensorView
#include "tilefold/attention.hpp"

unsigned long long ids[4] = {};
#ifdef MISUSE
tilefold::TensorView view(ids, {4});
#else
tilefold::TensorView view(ids, tilefold::DType::i64, {4});
#endif
