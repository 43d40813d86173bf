// The C ABI computes what the C++ front door computes and refuses what it refuses.
#include "tilefold/tilefold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tilefold/attention.hpp"

namespace {

using ::testing::HasSubstr;

constexpr int rows = 40, heads = 2, dim = 16;

struct Tensors {
  std::vector<float> q, k, v, out, lse;
  Tensors()
      : q(rows * heads * dim), k(q.size()), v(q.size()), out(q.size(), -7), lse(rows * heads) {
    for (std::size_t i = 0; i < q.size(); ++i) {
      q[i] = std::sin(float(i));
      k[i] = std::cos(0.3f * float(i));
      v[i] = std::sin(0.7f * float(i));
    }
  }
  tilefold_problem problem() {
    tilefold_problem p;
    tilefold_problem_init(&p);
    const int64_t shape[] = {1, rows, heads, dim}, lse_shape[] = {1, heads, rows};
    p.tensors.query = tilefold_contiguous(q.data(), TILEFOLD_F32, 4, shape);
    p.tensors.key = tilefold_contiguous(k.data(), TILEFOLD_F32, 4, shape);
    p.tensors.value = tilefold_contiguous(v.data(), TILEFOLD_F32, 4, shape);
    p.tensors.out = tilefold_contiguous(out.data(), TILEFOLD_F32, 4, shape);
    p.tensors.lse = tilefold_contiguous(lse.data(), TILEFOLD_F32, 3, lse_shape);
    p.threads = 1;
    return p;
  }
  // The same through C++.
  std::vector<float> expected(const tilefold::Options& options) const {
    std::vector<float> result(out.size());
    const tilefold::Extents shape{1, rows, heads, dim};
    tilefold::attend(tilefold::TensorView(q.data(), shape), tilefold::TensorView(k.data(), shape),
                     tilefold::TensorView(v.data(), shape),
                     tilefold::OutputView(result.data(), shape), options);
    return result;
  }
};

TEST(CApi, AttendsWithEveryKindOfFormula) {
  Tensors t;
  tilefold_problem p = t.problem();
  tilefold_mask* causal = tilefold_mask_causal();
  tilefold_mask* window = tilefold_mask_window(7, -1);
  tilefold_mask* both = tilefold_mask_and(causal, window);
  tilefold_score* cap = tilefold_score_softcap(3.0);
  p.mask = both;
  p.score = cap;
  ASSERT_EQ(tilefold_attend(&p), TILEFOLD_OK) << tilefold_last_error();
  EXPECT_EQ(t.out, t.expected({.mask = tilefold::causal() && tilefold::window(7),
                               .score = tilefold::softcap(3.0),
                               .threads = 1}));
  for (tilefold_mask* mask : {causal, window, both}) tilefold_mask_free(mask);
  tilefold_score_free(cap);
}

int keep_even(void* user, int32_t q, int32_t k, const tilefold_place* at) {
  ++*static_cast<int*>(user);
  return k <= q + at->offset && k % 2 == 0;
}
int classify_even(void*, int32_t, int32_t q_high, int32_t k_low, int32_t,
                  const tilefold_place* at) {
  return k_low > q_high + at->offset ? 0 : 1;
}

TEST(CApi, MasksMayBeCallbacks) {
  Tensors t;
  tilefold_problem p = t.problem();
  int calls = 0;
  tilefold_mask* mask = tilefold_mask_custom(keep_even, classify_even, &calls);
  p.mask = mask;
  ASSERT_EQ(tilefold_attend(&p), TILEFOLD_OK) << tilefold_last_error();
  EXPECT_GT(calls, 0);
  EXPECT_EQ(t.out, t.expected({.mask = tilefold::mask([](auto q, auto k, auto at) {
                                 using tilefold::score::floor_mod;
                                 return k <= q + at.offset && floor_mod(k, 2) == 0;
                               }),
                               .threads = 1}));
  tilefold_mask_free(mask);
}

TEST(CApi, PlansRunAgainAndExplain) {
  Tensors t;
  tilefold_problem p = t.problem();
  tilefold_plan* plan = nullptr;
  ASSERT_EQ(tilefold_plan_create(&p, &plan), TILEFOLD_OK) << tilefold_last_error();
  ASSERT_EQ(tilefold_plan_prepare(plan), TILEFOLD_OK);
  ASSERT_EQ(tilefold_plan_run(plan, &p.tensors, nullptr, 0, nullptr), TILEFOLD_OK);
  EXPECT_EQ(t.out, t.expected({.threads = 1}));
  const size_t needed = tilefold_plan_explain(plan, nullptr, 0);
  std::vector<char> text(needed), cut(10, 'x');
  EXPECT_EQ(tilefold_plan_explain(plan, text.data(), needed), needed);
  EXPECT_THAT(text.data(), HasSubstr("cpu/f32"));
  tilefold_plan_explain(plan, cut.data(), 10);
  EXPECT_EQ(std::strlen(cut.data()), 9u);
  EXPECT_EQ(tilefold_plan_status(plan), 0u);
  tilefold_plan_free(plan);
}

TEST(CApi, RefusesWithAStatusAndAMessage) {
  Tensors t;
  tilefold_problem p = t.problem();
  p.tensors.key.shape[2] = 3;
  EXPECT_EQ(tilefold_attend(&p), TILEFOLD_SHAPE_MISMATCH);
  EXPECT_THAT(tilefold_last_error(), HasSubstr("value is"));
  p = t.problem();
  p.struct_size = 8;
  EXPECT_EQ(tilefold_attend(&p), TILEFOLD_INVALID_ARGUMENT);
  EXPECT_THAT(tilefold_last_error(), HasSubstr("tilefold_problem_init"));
  p = t.problem();
  p.tensors.query.dtype = 99;
  EXPECT_EQ(tilefold_attend(&p), TILEFOLD_DTYPE_MISMATCH);
  p = t.problem();
  p.output = 2;
  EXPECT_EQ(tilefold_attend(&p), TILEFOLD_INVALID_ARGUMENT);
  EXPECT_EQ(tilefold_attend(nullptr), TILEFOLD_MISSING_ARGUMENT);
  EXPECT_EQ(tilefold_score_softcap(-1), nullptr);
  EXPECT_THAT(tilefold_last_error(), HasSubstr("softcap is -1"));
  EXPECT_EQ(tilefold_mask_documents(nullptr), nullptr);
  for (const float x : t.out) EXPECT_EQ(x, -7);
}

TEST(CApi, MergesParts) {
  Tensors whole, left, right;
  tilefold_problem p = whole.problem();
  ASSERT_EQ(tilefold_attend(&p), TILEFOLD_OK);
  const auto part = [](Tensors& t, int first, int count) {
    tilefold_problem q = t.problem();
    q.output = TILEFOLD_PARTIAL;
    for (tilefold_tensor* x : {&q.tensors.key, &q.tensors.value}) {
      x->shape[1] = count;
      x->data = static_cast<float*>(x->data) + first * heads * dim;
    }
    EXPECT_EQ(tilefold_attend(&q), TILEFOLD_OK) << tilefold_last_error();
    return q.tensors;
  };
  const tilefold_tensors a = part(left, 0, 13), b = part(right, 13, rows - 13);
  const tilefold_tensor outs[] = {a.out, b.out}, lses[] = {a.lse, b.lse};
  Tensors joined;
  tilefold_problem j = joined.problem();
  ASSERT_EQ(tilefold_merge(2, outs, lses, &j.tensors.out, &j.tensors.lse, nullptr), TILEFOLD_OK);
  for (std::size_t i = 0; i < whole.out.size(); ++i)
    EXPECT_NEAR(joined.out[i], whole.out[i], 2e-6) << i;
}

}  // namespace
