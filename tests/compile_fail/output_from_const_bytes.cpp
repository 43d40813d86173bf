// Nor is it made from untyped const memory.
// expect: invalid conversion from .const void
// expect: no matching constructor.*OutputView
#include "tilefold/attention.hpp"

const void* data = nullptr;
#ifdef MISUSE
tilefold::OutputView out(data, tilefold::DType::f32, {1, 2});
#else
tilefold::TensorView view(data, tilefold::DType::f32, {1, 2});
#endif
