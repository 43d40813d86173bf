// Plans: reuse across tensors, refusal of other tensors, workspaces, and what they say of
// themselves.
#include "tilefold/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "tilefold/attention.hpp"

namespace tilefold {
namespace {

using ::testing::HasSubstr;

struct Layer {
  static constexpr int queries = 70, keys = 150, heads = 4, kv_heads = 2, dim = 16;
  std::vector<float> q, k, v, out, lse;
  explicit Layer(float seed)
      : q(queries * heads * dim),
        k(keys * kv_heads * dim),
        v(k.size()),
        out(q.size(), -7.0f),
        lse(queries * heads, -7.0f) {
    const auto fill = [&](std::vector<float>& x, float phase) {
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = std::sin(seed + phase + 0.37f * float(i % 1013));
    };
    fill(q, 0.1f);
    fill(k, 0.2f);
    fill(v, 0.3f);
  }
  Problem problem() {
    Problem p;
    p.tensors.query = TensorView(q.data(), {1, queries, heads, dim});
    p.tensors.key = TensorView(k.data(), {1, keys, kv_heads, dim});
    p.tensors.value = TensorView(v.data(), {1, keys, kv_heads, dim});
    p.tensors.out = OutputView(out.data(), {1, queries, heads, dim});
    p.tensors.lse = OutputView(lse.data(), {1, heads, queries});
    p.options.mask = causal();
    p.options.threads = 1;
    return p;
  }
};

std::string refusal_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return std::string(name(e.code())) + ": " + e.what();
  }
  return "nothing was refused";
}

TEST(Plan, OnePlanServesEveryLayer) {
  Layer first(1), second(2), fresh(2);
  const Plan made = plan(first.problem());
  made.run(first.problem().tensors);
  made.run(second.problem().tensors);
  attend(fresh.problem());
  EXPECT_EQ(second.out, fresh.out);
  EXPECT_EQ(second.lse, fresh.lse);
  EXPECT_NE(first.out, second.out);
}

TEST(Plan, NeedsNoActivations) {
  Layer layer(1);
  Problem description = layer.problem();
  Tensors& t = description.tensors;
  t.query = t.query.with_data(nullptr);
  t.key = t.key.with_data(nullptr);
  t.value = t.value.with_data(nullptr);
  t.out = OutputView(nullptr, DType::f32, t.out.shape());
  const Plan made = plan(description);
  made.run(layer.problem().tensors);
  Layer fresh(1);
  attend(fresh.problem());
  EXPECT_EQ(layer.out, fresh.out);
}

TEST(Plan, RefusesOtherTensorsThanItsOwn) {
  Layer layer(1);
  const Plan made = plan(layer.problem());
  Tensors other = layer.problem().tensors;
  other.key = other.key.slice(1, 0, 149);
  EXPECT_THAT(refusal_of([&] { made.run(other); }),
              HasSubstr("plan_mismatch: key is f32 [1, 149, 2, 16]"));
  other = layer.problem().tensors;
  other.lse = {};
  EXPECT_THAT(refusal_of([&] { made.run(other); }), HasSubstr("plan_mismatch: lse is absent"));
  EXPECT_EQ(layer.out[0], -7.0f);
}

TEST(Plan, RefusesLengthsThatChangedSince) {
  Layer layer(1);
  Problem problem = layer.problem();
  int length = 120;
  problem.tensors.key_lengths = TensorView(&length, {1});
  const Plan made = plan(problem);
  length = 121;
  EXPECT_THAT(refusal_of([&] { made.run(problem.tensors); }),
              HasSubstr("70 queries and 121 keys: the plan was made for 70 and 120"));
  EXPECT_EQ(layer.out[0], -7.0f);
}

TEST(Plan, TakesTheCallersWorkspaceAndChecksIt) {
  Layer layer(1), fresh(1);
  const Plan made = plan(layer.problem());
  const std::size_t bytes = made.workspace_bytes();
  ASSERT_GT(bytes, 0u);
  void* memory = std::aligned_alloc(64, (bytes + 127) / 64 * 64);
  RunOptions options;
  options.workspace = {memory, bytes - 1};
  EXPECT_THAT(refusal_of([&] { made.run(layer.problem().tensors, options); }),
              HasSubstr("the plan needs"));
  options.workspace = {static_cast<char*>(memory) + 4, bytes};
  EXPECT_THAT(refusal_of([&] { made.run(layer.problem().tensors, options); }),
              HasSubstr("multiple of 64"));
  EXPECT_EQ(layer.out[0], -7.0f);
  std::memset(memory, 0xff, bytes);  // NaN wherever the run reads before it writes
  options.workspace = {memory, bytes};
  made.run(layer.problem().tensors, options);
  attend(fresh.problem());
  EXPECT_EQ(layer.out, fresh.out);
  std::free(memory);
}

TEST(Plan, RefusesAStreamOnTheCpu) {
  Layer layer(1);
  RunOptions options;
  options.stream = &layer;
  EXPECT_THAT(refusal_of([&] { plan(layer.problem()).run(layer.problem().tensors, options); }),
              HasSubstr("conflicting_argument"));
}

TEST(Plan, ExplainsItself) {
  Layer layer(1);
  const Plan made = plan(layer.problem());
  const std::string text = made.explain();
  for (const char* part : {"kernel     cpu/f32", "4 query heads over 2 KV heads",
                           "mask       causal", "tiles met", "binds", "f32 -> f32"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, HasSubstr("it multiplies in f64: the inputs are f32"));
  EXPECT_THAT(made.explain_json(), HasSubstr("\"binding_roof\""));
}

TEST(Plan, VisitsTheTilesThatItCounted) {
  Layer layer(1);
  for (const Mask& mask : {Mask(), causal(), window(10, 3), causal() && window(20)}) {
    Problem problem = layer.problem();
    problem.options.mask = mask;
    const Plan made = plan(problem);
    TileCounts visited;
    RunOptions options;
    options.visited = &visited;
    made.run(problem.tensors, options);
    EXPECT_EQ(visited, made.count_tiles()) << mask.text();
  }
}

}  // namespace
}  // namespace tilefold
