// Law: any problem of the option space is computed to the accuracy rule, writes its outputs and
// nothing else, and has the same bits on any number of threads; in batch-invariant mode a sequence
// has the same bits alone as in its batch.
#include <gtest/gtest.h>

#include <sstream>

#include "score/program/formula_nodes.hpp"
#include "support/verify.hpp"

namespace tilefold::testing {
namespace {

TEST(RandomProblems, MatchFloat64OnTheCpu) {
  std::ostringstream report;
  VerifyOptions options;
  options.backend = Backend::cpu;
  options.cases = 300;
  options.seed = 1;
  options.limits.formulas = FormulaParts::everything;
  const VerifySummary summary = verify(options, report);
  EXPECT_EQ(summary.failed, 0) << report.str() << summary.text();
  EXPECT_EQ(summary.refused, 0) << report.str() << summary.text();
  EXPECT_EQ(summary.passed, options.cases);
}

TEST(RandomProblems, HoldFormulasBuiltAtRunTime) {
  GeneratorLimits limits;
  limits.formulas = FormulaParts::everything;
  int masks = 0, changes = 0, of_batch = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const RandomProblem drawn = make_random_problem(seed, limits);
    const Options& o = drawn.problem.options;
    masks += dynamic_cast<const score::ProgramMask*>(o.mask.node()) != nullptr;
    changes += dynamic_cast<const score::ProgramChange*>(o.score.node()) != nullptr;
    of_batch += drawn.formula_reads_batch;
  }
  EXPECT_GT(masks, 15);
  EXPECT_GT(changes, 4);
  EXPECT_GT(of_batch, 8);
}

TEST(RandomProblems, ASeedAlwaysDrawsTheSameProblem) {
  for (const std::uint64_t seed : {1u, 77u, 4000u}) {
    const RandomProblem a = make_random_problem(seed), b = make_random_problem(seed);
    EXPECT_EQ(a.describe(), b.describe());
    EXPECT_EQ(packed_bytes(a.problem.tensors.query), packed_bytes(b.problem.tensors.query));
  }
}

/// FNV-1a over what describes the problems of 60 seeds: shapes, strides and every note.
std::uint64_t digest(const GeneratorLimits& limits) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::uint64_t seed = 1; seed <= 60; ++seed)
    for (const char c : make_random_problem(seed, limits).describe())
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

// Seeds stand in tests and in reports of faults: what they draw is kept.
TEST(RandomProblems, SeedsDrawWhatTheyDrewWhenTheseFiguresWereWritten) {
  EXPECT_EQ(digest({}), 14151651859964099236ULL);
  GeneratorLimits demanded;
  demanded.demand = Demand{.features = {Feature::padded_rows, Feature::softcap},
                           .keys = KeyForm::paged,
                           .mask = MaskForm::mixed};
  EXPECT_EQ(digest(demanded), 14242860273836190206ULL);
}

TEST(RandomProblems, AWriteOutsideTheOutputIsSeen) {
  TensorMemory memory;
  const OutputView out = memory.allocate(DType::f32, {2, 3}, {.order = {}, .padding = 2});
  Buffer& buffer = memory.buffer_of(out);
  const std::vector<unsigned char> before = buffer.bytes();
  for (int i = 0; i < 6; ++i) store(out, i, 1);
  EXPECT_EQ(changed_outside(buffer, before, out), unchanged);
  store_at(out, 3, 1);  // the first element of the padding
  EXPECT_EQ(changed_outside(buffer, before, out), 3 * 4);
}

}  // namespace
}  // namespace tilefold::testing
