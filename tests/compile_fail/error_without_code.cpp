// Every refusal has a code.
// expect: no matching (function|conversion).*Error
#include "tilefold/attention.hpp"

#ifdef MISUSE
void refuse() { throw tilefold::Error("scale is 0"); }
#else
void refuse() { throw tilefold::Error(tilefold::ErrorCode::invalid_argument, "scale is 0"); }
#endif
