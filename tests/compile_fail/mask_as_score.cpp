// A mask is no score change.
// expect: no match for .operator=.*ScoreChange|no viable overloaded
#include "tilefold/attention.hpp"

tilefold::Options options;
#ifdef MISUSE
void set() { options.score = tilefold::causal(); }
#else
void set() { options.mask = tilefold::causal(); }
#endif
