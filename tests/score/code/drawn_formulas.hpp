// The formulas whose code the build writes and the test reads back: both draw the same ones.
#pragma once

#include "score/program/code.hpp"
#include "support/random_program.hpp"

namespace tilefold::testing {

inline constexpr int drawn_masks = 60, drawn_changes = 40;
inline constexpr int code_batch = 2, code_heads = 4, code_queries = 21, code_keys = 33;

/// Formula `index` of a purpose, with what it reads.
struct DrawnFormula {
  DrawnFormula(int index, score::Purpose purpose)
      : random(std::uint64_t(index) * 2 + (purpose == score::Purpose::mask ? 1000 : 1001)),
        material(random, code_batch, code_heads, code_queries, code_keys),
        program(make_program(
            draw({random, material.names(), purpose != score::Purpose::mask},
                 purpose == score::Purpose::mask ? score::Kind::truth : score::Kind::real,
                 random.between(2, 5)),
            purpose)) {}
  Random random;
  FormulaMaterial material;
  score::BoundProgram program;
};

}  // namespace tilefold::testing
