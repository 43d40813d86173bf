// Boxes of attention's tensors for TMA: extents, strides, bytes, and what the hardware cannot take.
#include "cuda/runtime/tensor_box.hpp"

#include <gtest/gtest.h>

namespace tilefold::cuda {
namespace {

alignas(64) unsigned char memory[64];

/// [3, 100, 5, head_dim] with padding between the rows.
HeadTensor padded(int head_dim) {
  const std::int64_t row = 5 * head_dim + 8;
  return {memory, ElementType::f16, head_dim, 3, 100, 5, 100 * row, row, head_dim};
}

TEST(TensorBox, AWholeHeadIsGroupsOf64Columns) {
  const TensorBox box = head_box(padded(128), 176);
  EXPECT_EQ(refusal(box), "");
  EXPECT_EQ(box.rank, 5);
  EXPECT_EQ(box.extents, (std::array<std::int64_t, 5>{64, 100, 2, 5, 3}));
  EXPECT_EQ(box.strides, (std::array<std::int64_t, 5>{2, 2 * 648, 128, 256, 200 * 648}));
  EXPECT_EQ(box.box, (std::array<int, 5>{64, 176, 2, 1, 1}));
  EXPECT_EQ(box.box_bytes(), 176 * 128 * 2) << "past the end too: zeros are counted";
}

TEST(TensorBox, GroupsOfColumnsServeHeadsOfAnyWidth) {
  const TensorBox box = column_box(padded(80), 64);
  EXPECT_EQ(refusal(box), "");
  EXPECT_EQ(box.extents[0], 80) << "columns 80 to 127 of the second group are past the end: zeros";
  EXPECT_EQ(box.box, (std::array<int, 5>{64, 64, 1, 1, 0}));
  EXPECT_EQ(box.box_bytes(), 64 * 128);
}

TEST(TensorBox, TheStrideOfAnAxisOfOneElementMeansNothing) {
  HeadTensor tensor = padded(64);
  tensor.batch = tensor.heads = 1;
  tensor.batch_stride = -1, tensor.head_stride = 3;
  EXPECT_EQ(refusal(head_box(tensor, 64)), "");
  EXPECT_EQ(refusal(column_box(tensor, 64)), "");
}

TEST(TensorBox, RefusesWhatTheHardwareCannotTake) {
  const auto reason = [](auto change) {
    TensorBox box = head_box(padded(128), 64);
    change(box);
    return refusal(box);
  };
  EXPECT_EQ(reason([](TensorBox& b) { b.rank = 6; }), "rank is 6: it must be 1 to 5");
  EXPECT_EQ(reason([](TensorBox& b) { b.extents[1] = 0; }),
            "extents[1] is 0: it must be 1 to 2^32");
  EXPECT_EQ(reason([](TensorBox& b) { b.box[1] = 257; }), "box[1] is 257: it must be 1 to 256");
  EXPECT_EQ(reason([](TensorBox& b) { b.strides[1] = 1288; }),
            "strides[1] is 1288: it must be a multiple of 16 bytes below 2^40");
  EXPECT_EQ(reason([](TensorBox& b) { b.strides[4] = std::int64_t(1) << 40; }),
            "strides[4] is 1099511627776: it must be a multiple of 16 bytes below 2^40");
  EXPECT_EQ(reason([](TensorBox& b) { b.box[0] = 128; }),
            "box[0] is 128: it must be a multiple of 16 bytes, of at most 128");
  EXPECT_NE(reason([](TensorBox& b) { b.data = memory + 8; }), "");
  EXPECT_NE(reason([](TensorBox& b) { b.data = nullptr; }), "");
}

}  // namespace
}  // namespace tilefold::cuda
