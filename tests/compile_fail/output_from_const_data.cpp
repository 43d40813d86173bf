// An output is never made from a pointer to const.
// expect: no matching (function|constructor).*OutputView
#include "tilefold/attention.hpp"

const float* data = nullptr;
#ifdef MISUSE
tilefold::OutputView out(data, {1, 2, 3, 4});
#else
tilefold::TensorView view(data, {1, 2, 3, 4});
#endif
