// A mask lambda is told where it reads: it has three parameters.
// expect: no matching function for call to .mask
#include "tilefold/attention.hpp"

tilefold::Options options;
#ifdef MISUSE
void set() {
  options.mask = tilefold::mask([](auto q, auto k) { return k <= q; });
}
#else
void set() {
  options.mask = tilefold::mask([](auto q, auto k, auto) { return k <= q; });
}
#endif
