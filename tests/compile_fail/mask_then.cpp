// Masks join by && and ||; only score changes are chained by then().
// expect: no member named .then.
#include "tilefold/attention.hpp"

tilefold::Options options;
#ifdef MISUSE
void set() { options.mask = tilefold::causal().then(tilefold::window(7)); }
#else
void set() { options.mask = tilefold::causal() && tilefold::window(7); }
#endif
