// A read-only view does not become an output.
// expect: conversion from .tilefold::TensorView. to
#include "tilefold/attention.hpp"

tilefold::TensorView view;
#ifdef MISUSE
tilefold::OutputView out = view;
#else
tilefold::OutputView out;
tilefold::TensorView read_back = out;
#endif
