// as<T>() takes element types only.
// expect: no matching (function for call to|member function).*as
#include "tilefold/attention.hpp"

tilefold::TensorView view;
#ifdef MISUSE
const char* text() { return view.as<char>(); }
#else
const signed char* codes() { return view.as<signed char>(); }
#endif
