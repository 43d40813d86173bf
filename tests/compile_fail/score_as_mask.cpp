// A score change is no mask.
// expect: no match for .operator=.*Mask
// expect: no viable overloaded
#include "tilefold/attention.hpp"

tilefold::Options options;
#ifdef MISUSE
void set() { options.mask = tilefold::softcap(30); }
#else
void set() { options.score = tilefold::softcap(30); }
#endif
