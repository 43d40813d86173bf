// A view says whether it is present, and is no number otherwise.
// expect: cannot convert .*TensorView.* to .int
// expect: no viable conversion from .*TensorView.* to .int
#include "tilefold/attention.hpp"

tilefold::TensorView view;
#ifdef MISUSE
int count = view;
#else
bool there(view);
#endif
