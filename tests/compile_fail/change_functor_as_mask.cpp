// mask() takes a functor with keep(), or a lambda over (q, k, at).
// expect: no matching function for call to .mask
#include "tilefold/attention.hpp"

tilefold::Options options;
#ifdef MISUSE
void set() { options.mask = tilefold::mask(tilefold::score::SoftCap{30}); }
#else
void set() { options.mask = tilefold::mask(tilefold::score::Causal{}); }
#endif
