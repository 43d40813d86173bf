// Random attention problems over the whole option space, with the memory they live in.
//
//   RandomProblem drawn = make_random_problem(seed);
//   tilefold::plan(drawn.problem).run(drawn.problem.tensors);
//   std::cout << drawn.describe();                             // enough to draw it again
//
// Every byte that nobody may read is NaN: padding between rows, positions from Sk on, keys that the
// mask hides from every query, pages that no table names, slack rows of ragged tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/demand.hpp"
#include "support/tensor_memory.hpp"
#include "tilefold/problem.hpp"

namespace tilefold::testing {

/// Families of tensor-core kernels whose problems can be drawn: f16 or bf16 over itself, head
/// dimensions that are multiples of 8 up to 256, rows on 16 bytes, formulas of built-ins alone, no
/// descales; paged keys for sm80 only. All else is drawn as ever.
enum class KernelFamily { sm90, sm80 };

/// What formulas are composed of.
enum class FormulaParts {
  everything,  ///< formulas built at run time, too
  any,         ///< built-ins, functors and lambdas: what seeds drew before there were others
  built_ins    ///< what every kernel reads: no code of a caller's
};

/// Bounds on what is drawn. The work of a problem is the sum over its sequences of
/// Hq * Sq * Sk * (Dqk + Dv + 40), about a nanosecond each in the reference.
struct GeneratorLimits {
  double work = 3e6;
  int batch = 5, query_length = 300, key_length = 6000, head_dim = 1024;
  std::optional<DType> query_dtype;    ///< drawn unless given
  std::optional<Demand> demand;        ///< what the problem has, all else plain; drawn unless given
  std::optional<KernelFamily> family;  ///< draws what it takes; goes without the two above
  FormulaParts formulas = FormulaParts::any;  ///< built_ins where a family is given
};

struct RandomProblem {
  std::uint64_t seed = 0;
  Problem problem;
  TensorMemory memory;
  std::vector<std::string> notes;         ///< one line an aspect, in the order they were drawn
  std::vector<bool> value_has_nan;        ///< a visible value row of this sequence holds NaN
  bool formula_reads_batch = false;       ///< a mask or score change looks at Place::batch
  std::optional<bool> lengths_on_device;  ///< of CUDA runs, where it was demanded

  std::string describe() const;
  /// Poisons the outputs again, guards included.
  void poison_outputs();
};

RandomProblem make_random_problem(std::uint64_t seed, const GeneratorLimits& limits = {});

}  // namespace tilefold::testing
