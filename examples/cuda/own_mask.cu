// The kernel of the mask. Nothing else is needed: linked, it is found by the functor's type.
#include "own_mask.hpp"
#include "tilefold/cuda/instantiate.cuh"

TILEFOLD_INSTANTIATE_FORWARD(dilated, Dilated, tilefold::score::Unchanged, bf16, 64);
