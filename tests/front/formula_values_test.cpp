// Law: a plan reads the scalars and side tensors of its formulas at each run, whatever they held
// when it was made.
#include <gtest/gtest.h>

#include "support/random.hpp"
#include "support/tensor_memory.hpp"
#include "tilefold/attention.hpp"
#include "tilefold/expression.hpp"

namespace tilefold::testing {
namespace {

TEST(FormulaValues, ReachAPlanThatWasMadeBefore) {
  using namespace symbols;
  constexpr int rows = 300, dim = 16;
  TensorMemory memory;
  Random random(9);
  const auto drawn = [&](DType dtype, const Extents& shape) {
    const OutputView tensor = memory.allocate(dtype, shape);
    for (std::int64_t i = 0; i < tensor.element_count(); ++i) store(tensor, i, random.normal());
    return tensor;
  };
  const OutputView ids = memory.allocate(DType::i32, {rows});
  const auto number_documents = [&](int length) {
    for (int i = 0; i < rows; ++i) store(ids, i, i / length);
  };
  number_documents(20);
  const OutputView slopes = drawn(DType::f32, {2});
  Scalar reach("reach", 3), factor("factor", 0.5);
  SideTensor doc("doc", ids), slope("slope", slopes);
  Problem problem;
  problem.options.backend = Backend::cpu;
  problem.options.mask = mask(k <= q && q - k < reach && doc[q] == doc[k]);
  problem.options.score = change(factor * s + slope[head] * real(k - q));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Tensors& t = problem.tensors;
    t = {.query = drawn(dtype, {1, rows, 2, dim}),
         .key = drawn(dtype, {1, rows, 2, dim}),
         .value = drawn(dtype, {1, rows, 2, dim}),
         .out = memory.allocate(dtype, {1, rows, 2, dim})};
    Plan plan = tilefold::plan(problem);
    for (const int value : {200, 1, 64, 300}) {
      plan.run(t);
      const auto before = packed_bytes(t.out);
      reach.set(value);
      factor.set(1.0 / value);
      number_documents(value / 2 + 1);
      doc.update(ids);
      store(slopes, 1, 0.01 * value);
      slope.update(slopes);
      plan.run(t);
      const auto after = packed_bytes(t.out);
      EXPECT_NE(after, before) << value;
      tilefold::plan(problem).run(t);
      EXPECT_EQ(packed_bytes(t.out), after) << "a plan made now computes something else: " << value;
    }
  }
}

}  // namespace
}  // namespace tilefold::testing
