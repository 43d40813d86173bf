// then() takes a score change.
// expect: cannot convert .tilefold::Mask. to
// expect: no viable conversion from .tilefold::Mask. to
#include "tilefold/attention.hpp"

tilefold::Options options;
#ifdef MISUSE
void set() { options.score = tilefold::softcap(30).then(tilefold::causal()); }
#else
void set() { options.score = tilefold::softcap(30).then(tilefold::softcap(50)); }
#endif
