// Choices are enumerators, not bools.
// expect: cannot convert .bool
// expect: incompatible type .bool
#include "tilefold/attention.hpp"

tilefold::Options options;
#ifdef MISUSE
void set() { options.reproducibility = true; }
#else
void set() { options.reproducibility = tilefold::Reproducibility::batch_invariant; }
#endif
