// Views: shapes, strides, slices and what they touch.
#include "tilefold/tensor_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilefold/error.hpp"

namespace tilefold {
namespace {

using ::testing::HasSubstr;

template <class Body> std::string refusal_of(const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was refused";
}

TEST(TensorView, ContiguousByDefault) {
  float data[24] = {};
  const TensorView view(data, {2, 3, 4});
  EXPECT_EQ(view.stride(0), 12);
  EXPECT_EQ(view.stride(2), 1);
  EXPECT_TRUE(view.contiguous());
  EXPECT_EQ(view.to_string(), "f32 [2, 3, 4]");
  EXPECT_EQ(view.byte_span().last, 24 * 4);
}

TEST(TensorView, TheStrideOfAnAxisOfOneMeansNothing) {
  float data[4] = {};
  const TensorView view(data, {1, 4}, {999, 1});
  EXPECT_EQ(view.stride(0), 0);
  EXPECT_TRUE(view.contiguous());
}

TEST(TensorView, SlicesAndTurns) {
  float data[24] = {};
  const TensorView view(data, {2, 3, 4});
  const TensorView part = view.slice(2, 1, 3).transposed(0, 1);
  EXPECT_EQ(part.data(), data + 1);
  EXPECT_EQ(part.shape(), (Extents{3, 2, 2}));
  EXPECT_EQ(part.strides(), (Extents{4, 12, 1}));
  EXPECT_THAT(refusal_of([&] { view.slice(2, 3, 5); }), HasSubstr("slice [3, 5) of axis 2"));
}

TEST(TensorView, NegativeStridesReachBackwards) {
  double data[6] = {};
  const TensorView view(data + 5, {6}, {-1});
  EXPECT_EQ(view.byte_span().first, -40);
  EXPECT_EQ(view.byte_span().last, 8);
}

TEST(TensorView, RefusesWhatIsNoTensor) {
  float data[1] = {};
  EXPECT_THAT(refusal_of([&] { TensorView(data, {2, -1}); }), HasSubstr("negative extent"));
  EXPECT_THAT(refusal_of([&] { TensorView(data, {2, 1}, {1}); }), HasSubstr("one stride an axis"));
  EXPECT_THAT(refusal_of([&] { TensorView(data, {1, 1, 1, 1, 1, 1, 1}); }), HasSubstr("at most 6"));
  EXPECT_THAT(refusal_of([&] { TensorView(data, {1}).as<double>(); }), HasSubstr("read as f64"));
}

TEST(TensorView, CountsPastInt64AreCapped) {
  const TensorView view(nullptr, DType::f32, {INT64_MAX / 2, 4});
  EXPECT_EQ(view.element_count(), INT64_MAX);
}

}  // namespace
}  // namespace tilefold
