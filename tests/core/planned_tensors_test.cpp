// Law: what PlannedTensors answers with yes, the full checks let pass; what they refuse, it does
// not answer with yes; and for tensors that differ in pointers alone it answers with yes.
#include "core/planned_tensors.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "core/geometry.hpp"
#include "tilefold/error.hpp"

namespace tilefold::core {
namespace {

struct Lengths {
  std::vector<std::int32_t> queries{0, 3, 8}, keys{0, 5, 9}, starts{2, 0};
};

/// Memory that nothing reads: addresses apart by 1 MiB.
char* place(int number) { return reinterpret_cast<char*>(std::uintptr_t(number + 1) << 20); }

/// Two ragged sequences with lse, a scale a head, and starts.
Problem ragged(Lengths& lengths, int first_place = 0) {
  Problem problem;
  Tensors& t = problem.tensors;
  const auto at = [&](int number) { return place(first_place + number); };
  t.query = TensorView(at(0), DType::e4m3, {8, 4, 16});
  t.key = TensorView(at(1), DType::e4m3, {9, 1, 16});
  t.value = TensorView(at(2), DType::e4m3, {9, 1, 16});
  t.out = OutputView(at(3), DType::f32, {8, 4, 16});
  t.lse = OutputView(at(4), DType::f32, {4, 8});
  t.query_descale = {TensorView(at(5), DType::f32, {4}), Granularity::head};
  t.cu_seqlens_q = TensorView(lengths.queries.data(), {3});
  t.cu_seqlens_k = TensorView(lengths.keys.data(), {3});
  t.query_starts = TensorView(lengths.starts.data(), {2});
  problem.options.positions = Positions{};
  return problem;
}

bool passes(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error&) {
    return false;
  }
  return true;
}

class PlannedTensorsTest : public ::testing::Test {
 protected:
  Lengths lengths_;
  const Problem problem_ = ragged(lengths_);
  const Geometry geometry_ = resolve(problem_);
  const PlannedTensors planned_{problem_.tensors, 16};

  bool describes(const Tensors& t) const { return planned_.describes(t, pointers_to(t)); }
  bool usable(const Tensors& t) const { return planned_.are_usable_and_apart(pointers_to(t)); }
  bool same_lengths(const Tensors& t) const { return planned_.have_same_lengths(pointers_to(t)); }
  bool fully_described(const Tensors& t) const {
    return passes([&] { check_same_description(problem_.tensors, t); });
  }
  bool fully_usable(const Tensors& t) const {
    return passes([&] { check_memory(t); });
  }
  bool full_lengths(const Tensors& t) const {
    return passes([&] { check_same_lengths(geometry_, t, problem_.options); });
  }
};

TEST_F(PlannedTensorsTest, OtherPointersAreAnsweredWithYes) {
  Lengths copy;
  const Tensors other = ragged(copy, 10).tensors;
  EXPECT_TRUE(describes(other));
  EXPECT_TRUE(usable(other));
  EXPECT_TRUE(same_lengths(other));
}

TEST_F(PlannedTensorsTest, EveryOtherDescriptionIsAnsweredWithNo) {
  const std::vector<std::pair<const char*, std::function<void(Tensors&)>>> changes = {
      {"dtype",
       [](Tensors& t) {
         t.key = TensorView(place(1), DType::e5m2, {9, 1, 16});
       }},
      {"extent",
       [](Tensors& t) {
         t.key = TensorView(place(1), DType::e4m3, {10, 1, 16});
       }},
      {"rank",
       [](Tensors& t) {
         t.key = TensorView(place(1), DType::e4m3, {9, 1, 16, 1});
       }},
      {"stride",
       [](Tensors& t) {
         t.key = TensorView(place(1), DType::e4m3, {9, 1, 16}, {32, 16, 1});
       }},
      {"device kind",
       [](Tensors& t) {
         t.key = TensorView(place(1), DType::e4m3, {9, 1, 16}, Device::cuda(0));
       }},
      {"a tensor less", [](Tensors& t) { t.lse = {}; }},
      {"a tensor more", [](Tensors& t) { t.sinks = TensorView(place(9), DType::f32, {4}); }},
      {"one for another", [](Tensors& t) { std::swap(t.query_starts, t.key_starts); }},
      {"granularity", [](Tensors& t) { t.query_descale.per = Granularity::tensor; }},
  };
  for (const auto& [name, change] : changes) {
    Tensors given = problem_.tensors;
    change(given);
    EXPECT_FALSE(fully_described(given)) << name << ": the law would be empty";
    EXPECT_FALSE(describes(given)) << name;
  }
}

TEST_F(PlannedTensorsTest, AStrideThatMeansNothingIsLeftToTheFullCheck) {
  Tensors given = problem_.tensors;
  given.key = TensorView(place(1), DType::e4m3, {9, 1, 16}, {16, 7, 1});
  EXPECT_FALSE(describes(given));
  EXPECT_TRUE(fully_described(given));
}

TEST_F(PlannedTensorsTest, NullMisalignedAndOverlappingTensorsAreAnsweredWithNo) {
  const auto moved = [](OutputView& out, char* to) {
    out = OutputView(to, out.dtype(), out.shape());
  };
  const std::vector<std::pair<const char*, std::function<void(Tensors&)>>> changes = {
      {"null", [](Tensors& t) { t.query = t.query.with_data(nullptr); }},
      {"null lengths", [](Tensors& t) { t.cu_seqlens_k = t.cu_seqlens_k.with_data(nullptr); }},
      {"off its element", [&](Tensors& t) { moved(t.lse, place(4) + 2); }},
      {"out in query", [&](Tensors& t) { moved(t.out, place(0)); }},
      {"out meets key's last byte", [&](Tensors& t) { moved(t.out, place(1) + 140); }},
      {"lse in out", [&](Tensors& t) { moved(t.lse, place(3) + 64); }},
      {"lse in a scale", [&](Tensors& t) { moved(t.lse, place(5) + 12); }},
  };
  for (const auto& [name, change] : changes) {
    Tensors given = problem_.tensors;
    change(given);
    EXPECT_FALSE(fully_usable(given)) << name << ": the law would be empty";
    EXPECT_FALSE(usable(given)) << name;
  }
  // The kernel's alignment, which check_memory() does not know.
  Tensors given = problem_.tensors;
  given.value = given.value.with_data(place(2) + 8);
  EXPECT_FALSE(usable(given));
}

TEST_F(PlannedTensorsTest, AnOutputThatMeetsItselfIsNeverAnsweredWithYes) {
  Tensors broadcast = problem_.tensors;
  broadcast.out = OutputView(place(3), DType::f32, {8, 4, 16}, {0, 16, 1});
  const PlannedTensors planned(broadcast, 1);
  EXPECT_FALSE(planned.are_usable_and_apart(pointers_to(broadcast)));
}

TEST_F(PlannedTensorsTest, StridesPastAllMemoryAreTakenDown) {
  Tensors far = problem_.tensors;
  constexpr std::int64_t most = INT64_MAX, least = INT64_MIN;
  far.key = TensorView(place(1), DType::f32, {9, 3, 16}, {most, least, 1});
  far.out = OutputView(place(3), DType::f32, {8, 4, 16}, {least, most, 1});
  EXPECT_TRUE(PlannedTensors(far, 1).describes(far, pointers_to(far)));
}

TEST_F(PlannedTensorsTest, ChangedLengthsAreAnsweredWithNo) {
  lengths_.queries[1] = 4;
  EXPECT_FALSE(full_lengths(problem_.tensors)) << "the law would be empty";
  EXPECT_FALSE(same_lengths(problem_.tensors));
  lengths_.queries[1] = 3;
  EXPECT_TRUE(same_lengths(problem_.tensors));
  lengths_.starts[1] = 1;
  EXPECT_FALSE(full_lengths(problem_.tensors)) << "the law would be empty";
  EXPECT_FALSE(same_lengths(problem_.tensors));
}

}  // namespace
}  // namespace tilefold::core
