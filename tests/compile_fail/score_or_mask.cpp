// A score change joins no mask by a logical operator.
// expect: no match for .operator\|\|
// expect: invalid operands to binary expression
#include "tilefold/attention.hpp"

tilefold::Options options;
#ifdef MISUSE
void set() { options.mask = tilefold::softcap(30) || tilefold::causal(); }
#else
void set() { options.mask = tilefold::window(30) || tilefold::causal(); }
#endif
