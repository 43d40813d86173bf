// Law: a formula compiled into a kernel computes what float64 computes, or is refused with a
// reason; its side tensors travel to the device. The last tests are skipped without a device.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cuda/backend.hpp"
#include "cuda/compiled_formulas.hpp"
#include "cuda/formula_problems.hpp"
#include "cuda/launch/compiled.hpp"
#include "cuda/launch/work_order.hpp"
#include "support/random.hpp"
#include "support/verify.hpp"
#include "tilefold/cuda/compiled.hpp"
#include "tilefold/error.hpp"
#include "tilefold/plan.hpp"

namespace tilefold::testing {
namespace {

/// Documents of random lengths, a row a sequence.
struct Documents {
  static constexpr int positions = 8192, sequences = 8;
  std::vector<std::int32_t> ids = std::vector<std::int32_t>(positions * sequences);
  std::unique_ptr<LookupTable> table;

  explicit Documents(int longest) {
    Random random(5);
    for (int s = 0; s < sequences; ++s)
      for (int i = 0, left = 0, id = 0; i < positions; ++i, --left) {
        if (left == 0) left = random.between(1, longest), ++id;
        ids[std::size_t(s * positions + i)] = id;
      }
    table =
        std::make_unique<LookupTable>(TensorView(ids.data(), DType::i32, {sequences, positions}));
  }
  score::Document functor() const { return {table->lookup()}; }
};

struct Distances {
  static constexpr int reach = 40, heads = 64;
  std::vector<float> values = std::vector<float>(heads * (2 * reach + 1));

  Distances() {
    Random random(6);
    for (float& v : values) v = float(random.normal());
  }
  score::RelativeBias functor() const {
    return {{values.data(), 2 * reach + 1, heads, 2 * reach + 1}, reach};
  }
};

Problem host_problem(DType type, int head_dim) {
  Problem p;
  const Device device = Device::cuda(0);
  const Extents extents{2, 256, 4, head_dim};
  p.tensors.query = TensorView(nullptr, type, extents, device);
  p.tensors.key = p.tensors.value = p.tensors.query;
  p.tensors.out = OutputView(nullptr, type, extents, device);
  p.options.backend = Backend::cuda;
  return p;
}
std::string refusal_of(const Problem& problem) {
  try {
    return std::string("planned: ") + plan(problem).kernel();
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(CompiledFormulas, ArePlannedByTheirTypes) {
  const Distances bias;
  Problem p = host_problem(DType::bf16, 128);
  p.options.mask = mask(score::Causal{});
  p.options.score = change(bias.functor());
  EXPECT_EQ(refusal_of(p), "planned: sm90 bf16 d128 128x128 relative");
  p.options.mask = causal();  // the built-in holds the same functor
  EXPECT_EQ(refusal_of(p), "planned: sm90 bf16 d128 128x128 relative");
  Problem half = host_problem(DType::f16, 96);
  half.options.mask = mask(Dilated{3});
  half.options.score = change(score::SoftCap{20});
  EXPECT_EQ(refusal_of(half), "planned: sm90 f16 d96 128x128 dilated");
}

TEST(CompiledFormulas, OthersAreRefusedWithAReason) {
  const Distances bias;
  Problem p = host_problem(DType::bf16, 128);
  p.options.mask = mask(Dilated{3});
  EXPECT_NE(refusal_of(p).find("compiled for another formula"), std::string::npos) << refusal_of(p);
  EXPECT_NE(refusal_of(p).find("tilefold/cuda/instantiate.cuh"), std::string::npos);
  p.options.mask = causal();
  p.options.score = change(bias.functor());
  p.options.softcap = 30;
  EXPECT_NE(refusal_of(p).find("beside the formula"), std::string::npos) << refusal_of(p);
  p.options.softcap.reset();
  p.options.positions = Positions{};
  p.options.positions->key.stride = 2;
  EXPECT_NE(refusal_of(p).find("one apart"), std::string::npos) << refusal_of(p);
}

TEST(CompiledFormulas, AreRegisteredBeforeTheFirstPlanAndOnce) {
  refusal_of(host_problem(DType::bf16, 128));
  EXPECT_THROW(cuda::register_forward(cuda::compiled_rows().front().kernel), Error);
}

/// Copies in host memory, as a device would hold them.
class HostCopies final : public cuda::SideTensors {
 public:
  int batch() const override { return Documents::sequences; }
  int query_heads() const override { return Distances::heads; }

 protected:
  void* copy(const void* host, std::size_t bytes) const override {
    const auto* first = static_cast<const unsigned char*>(host);
    copies_.emplace_back(first, first + bytes);
    return copies_.back().data();
  }
  void* space(std::size_t bytes) const override {
    copies_.emplace_back(bytes);
    return copies_.back().data();
  }
  void gather(const score::SideArray<int>&, const TensorView&) const override {}
  void gather(const score::SideArray<float>&, const TensorView&) const override {}

 private:
  mutable std::vector<std::vector<unsigned char>> copies_;
};

TEST(CompiledFormulas, PaddedCopiesReadByBaseAndOffsetWhatIntReads) {
  const Documents documents(50);
  const Distances bias;
  const HostCopies copies;
  score::Lookup lookup = documents.table->lookup();
  score::Table table = bias.functor().table;
  copies(lookup);
  copies(table);
  for (const int base : {-100000, -129, -128, -40, -1, 0, 1, 79, 80, 81, 5000, 8191, 8192, 900000})
    for (int offset = -64; offset < 128; ++offset) {
      const score::Position at(base, offset);
      const int sum = base + offset;
      EXPECT_EQ(lookup.at(3, at).sum(), documents.table->lookup().at(3, sum))
          << base << " " << offset;
      EXPECT_EQ(table.at(7, at), bias.functor().table.at(7, sum)) << base << " " << offset;
    }
}

TEST(WorkOrder, RisesWhereLaterRowTilesSeeMore) {
  const core::Geometry g = [&] {
    core::Geometry geometry;
    geometry.batch = 1, geometry.query_heads = geometry.kv_heads = 1;
    geometry.query_stride = geometry.key_stride = 1;
    core::Sequence s;
    s.query_length = s.key_length = 1024;
    geometry.sequences = {s};
    return geometry;
  }();
  const planner::TileShape tile{128, 128, 128};
  EXPECT_TRUE(cuda::rises(g, tile, mask(score::Causal{}).node()));
  EXPECT_TRUE(cuda::rises(g, tile, mask(score::Causal{} && score::Window{100, -1}).node()));
  EXPECT_FALSE(cuda::rises(g, tile, nullptr));
  EXPECT_FALSE(cuda::rises(g, tile, mask(!score::Causal{}).node()));
}

TEST(CompiledFormulas, TheFirstVisibleKeyOfASequenceIsTheFirstRowsWindow) {
  core::Geometry g;
  g.batch = 2, g.query_heads = g.kv_heads = 1;
  g.query_stride = g.key_stride = 1;
  core::Sequence s;
  s.query_length = 100, s.key_length = 1000, s.offset = 900;
  g.sequences = {s, s};
  g.sequences[1].key_length = 0;
  const Mask window = mask(score::Causal{} && score::Window{100, -1});
  EXPECT_EQ(cuda::first_visible_keys(g, window.node()), (std::vector<int>{800, 0}));
  EXPECT_EQ(cuda::first_visible_keys(g, nullptr), (std::vector<int>{0, 0}));
}

class CompiledOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const cuda::Presence here = cuda::presence();
    if (!here.absence.empty()) GTEST_SKIP() << here.absence;
  }
};

struct Instance {
  const char* name;
  DType type;
  int head_dim;
  Mask mask;
  ScoreChange score;
};

std::vector<GeneratorLimits> limits_of(const Instance& of) {
  using F = Feature;
  const std::vector<std::pair<Features, KeyForm>> asked = {
      {{F::lse}, KeyForm::dense},
      {{F::partial, F::grouped_heads}, KeyForm::dense},
      {{F::uneven_lengths, F::key_lengths, F::query_lengths}, KeyForm::dense},
      {{F::ragged_query, F::lse, F::empty_sequences}, KeyForm::ragged},
      {{F::one_long_row, F::grouped_heads}, KeyForm::dense},
      {{F::fewer_keys_than_queries, F::sinks}, KeyForm::dense},
      {{F::padded_rows, F::scale, F::other_out_type}, KeyForm::dense},
      {{F::ragged_query, F::device_lengths, F::lse}, KeyForm::ragged},
      {{F::batch_invariant, F::few_rows}, KeyForm::dense},
  };
  std::vector<GeneratorLimits> all;
  for (const auto& [features, keys] : asked) {
    all.push_back(limits_of(of.type, of.head_dim, features, keys));
  }
  return all;
}

TEST_F(CompiledOnDevice, ComputeWhatFloat64Does) {
  const Documents few(700), many(40);
  const Distances bias;
  const Instance instances[] = {
      {"documents", DType::bf16, 128, mask(score::Causal{} && few.functor()), {}},
      {"documents", DType::bf16, 104, mask(score::Causal{} && many.functor()), {}},
      {"documents", DType::f16, 64, mask(score::Causal{} && many.functor()), {}},
      {"relative", DType::bf16, 128, causal(), change(bias.functor())},
      {"relative_everywhere", DType::bf16, 64, {}, change(bias.functor())},
      {"window", DType::bf16, 256, mask(score::Causal{} && score::Window{100, -1}), {}},
      {"dilated", DType::f16, 96, mask(Dilated{3}), change(score::SoftCap{20})},
  };
  for (const Instance& of : instances) {
    int on_own_kernel = 0;
    for (const GeneratorLimits& limits : limits_of(of))
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        RandomProblem drawn = drawn_with(7000 + seed, limits, of.mask, of.score);
        const ProblemVerdict verdict = check_problem(drawn, Backend::cuda, 3);
        EXPECT_EQ(verdict.fault + verdict.refusal, "") << of.name << "\n" << drawn.describe();
        on_own_kernel += verdict.refusal.empty();
      }
    EXPECT_EQ(on_own_kernel, 54) << of.name;
  }
}

}  // namespace
}  // namespace tilefold::testing
