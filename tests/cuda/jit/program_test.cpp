// Formulas built at run time through NVRTC, without a GPU: every operation in all its readings, and
// recipes within the registers that the kernel has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/jit/compile_log.hpp"
#include "cuda/jit/forward.hpp"
#include "cuda/jit/sources.hpp"
#include "score/program/formula_nodes.hpp"

namespace tilefold::cuda::jit {
namespace {

#define SKIP_WITHOUT_NVRTC() \
  if (!nvrtc().found()) GTEST_SKIP() << nvrtc().absence()

JitForward compiled(const Mask& mask, const ScoreChange& change, int shape) {
  KernelCache cache({"", "a test", 0});
  return compile_forward({score::code_of(mask.node())->code(),
                          score::code_of(change.node())->code(),
                          {Family::sm90, HalfType::bf16, shape},
                          "sm_90a"},
                         nvrtc(), cache);
}

/// Two of each: of arguments that queries and keys change, and of arguments that only heads do.
Expression every_integer_operation(const Expression& a, const Expression& b) {
  return (a + b) - a * b + floor_div(a, b + 7) + a % (b + 9) + min(a, -b) + max(a, abs(b)) +
         (a & b) + (a | b) + (a ^ b) + (a << (b & 3)) + (a >> (b & 3)) + select(bit(a, b), a, b);
}
Expression every_real_operation(const Expression& x, const Expression& y) {
  return x + y - x * y / (abs(y) + 1.5) + min(x, -y) + max(x, y) + exp(tanh(x)) + log(sigmoid(y)) +
         select(x < y, x, y) + real(floor(x));
}
Expression every_relation(const Expression& a, const Expression& b) {
  return (a < b || !(a <= b)) && (a == b || a != b + 1) && (a > b || a >= b);
}

struct Material {
  int ints[64 * 64] = {};
  float floats[64 * 64] = {};
  bool truths[64] = {};
  SideTensor line{"line", TensorView(ints, {64})}, plane{"plane", TensorView(ints, {64, 64})};
  SideTensor cube{"cube", TensorView(ints, {4, 4, 64})};
  SideTensor four{"four", TensorView(floats, {2, 2, 4, 64})};
  SideTensor slope{"slope", TensorView(floats, {64})}, flag{"flag", TensorView(truths, {64})};
  Scalar n{"n", 3}, x{"x", 0.5};
};

TEST(ProgramCode, HoldsEveryOperationInAllReadings) {
  SKIP_WITHOUT_NVRTC();
  using namespace symbols;
  const auto m = std::make_unique<Material>();
  const Expression varying =
      m->line[q + off] + m->plane(q, k) + m->cube(batch, head, k - q) + 2 * k;
  const Expression fixed = m->line[head] + m->n + kv_head - query_length + key_length * 3;
  const Expression reals = m->four(batch, kv_head, head, k) * real(q - k) + m->x;
  const Mask keep = mask(every_relation(every_integer_operation(varying, fixed), k * 2 + 1) &&
                         every_relation(every_integer_operation(fixed, m->n), varying) &&
                         every_relation(every_real_operation(reals, m->slope[head]), m->x) &&
                         m->flag[k] && q - k < m->n && k < m->line[batch]);
  const ScoreChange changed =
      change(every_real_operation(s, reals) + every_real_operation(m->slope[head], m->x) * s +
             real(every_integer_operation(varying, fixed)));
  // Not in the attention kernel, which unrolls a formula for every element of a thread.
  const std::string source =
      "#include \"tilefold/score/compose.hpp\"\n#include \"tilefold/score/operations.hpp\"\n"
      "#include \"tilefold/score/side_array.hpp\"\nnamespace tilefold::score::kept {\n" +
      score::code_of(keep.node())->code().definitions +
      "\n}\nnamespace tilefold::score::changed {\n" +
      score::code_of(changed.node())->code().definitions +
      "\n}\nusing namespace tilefold::score;\n"
      "template <class Keep, class Change> __global__ void ask(Keep keep, Change change, Place at,"
      " float* out) {\n"
      "  const int i = int(threadIdx.x);\n"
      "  const Truth tile = keep.keep(Interval(i, i + 63), Interval(0, i), at);\n"
      "  const bool kept = decided(keep.keep(Position(i, 3), Position(0, 5), at));\n"
      "  const Dual<float> d = change.change(Dual<float>::variable(out[i]), i, i + 1, at);\n"
      "  out[i] = tile.yes() && kept ? change.change(out[i], Position(i, 1), Position(i), at)"
      " : d.slope;\n}\n";
  const Compilation made =
      nvrtc().compile({source, "ask<kept::Formula, changed::Formula>", "sm_90a"}, kernel_sources());
  EXPECT_TRUE(made.cubin) << made.log;
  EXPECT_EQ(made.log, "");
}

TEST(ProgramCode, MasksOfRecipesDoNotSpill) {
  SKIP_WITHOUT_NVRTC();
  using namespace symbols;
  const auto m = std::make_unique<Material>();
  const Expression causal_part = k <= q + off;
  for (const Expression& keep :
       {causal_part && m->line[q + off] == m->line[k], causal_part && q + off - k < m->n}) {
    const JitForward kernel = compiled(mask(keep), ScoreChange(), 2);
    EXPECT_EQ(spilled_bytes(kernel.cubin->report), 0) << keep.text() << "\n"
                                                      << kernel.cubin->report;
  }
}

TEST(ProgramCode, IsTheSameForOtherNamesAndValues) {
  using namespace symbols;
  const int ids[4] = {}, others[9] = {1};
  const auto code = [](const SideTensor& doc, const Scalar& w) {
    return score::code_of(mask(doc[q] == doc[k] && q - k < w).node())->code().definitions;
  };
  EXPECT_EQ(code(SideTensor("doc", TensorView(ids, {4})), Scalar("w", 4)),
            code(SideTensor("other", TensorView(others, {9})), Scalar("reach", 9)));
}

}  // namespace
}  // namespace tilefold::cuda::jit
