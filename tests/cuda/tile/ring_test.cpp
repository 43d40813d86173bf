// Stage and phase of a ring: each buffer's uses alternate in parity, in the order of the uses.
#include "cuda/tile/ring.cuh"

#include <gtest/gtest.h>

#include <array>

#include "cuda/tile/ptx/setmaxnreg.cuh"

namespace tilefold::cuda {
namespace {

template <class Stages> class RingOf : public testing::Test {};
template <int n> struct Count { static constexpr int stages = n; };
using Counts = testing::Types<Count<1>, Count<2>, Count<3>, Count<4>, Count<7>>;
TYPED_TEST_SUITE(RingOf, Counts);

TYPED_TEST(RingOf, UseNIsStageNModuloAndItsRoundsParity) {
  constexpr int stages = TypeParam::stages;
  RingPosition<stages> at;
  for (unsigned use = 0; use < 50; ++use) {
    EXPECT_EQ(at.stage, use % stages) << "use " << use;
    EXPECT_EQ(at.phase, use / stages % 2) << "use " << use;
    const RingPosition<stages> here = at;
    at.advance();
    EXPECT_EQ(at.before().stage, here.stage) << "use " << use;
    EXPECT_EQ(at.before().phase, here.phase) << "use " << use;
  }
}

/// An mbarrier that one arrival completes.
struct Barrier {
  unsigned completed = 0;
  void arrive() { ++completed; }
  /// Whether the phase of this parity is over: the running one has the other parity.
  bool over(unsigned parity) const { return (completed & 1u) != parity; }
};

TYPED_TEST(RingOf, ProducerAndConsumerNeverMeetInABuffer) {
  constexpr int stages = TypeParam::stages;
  std::array<Barrier, stages> full, empty;
  std::array<int, stages> holds{};
  RingPosition<stages> producer, consumer;
  int made = 0, used = 0;
  // The producer runs as far ahead as it may before each step of the consumer.
  for (; used < 40; ++used) {
    while (made <= used + stages && empty[producer.stage].over(producer.phase ^ 1u)) {
      holds[producer.stage] = made++;
      full[producer.stage].arrive();
      producer.advance();
    }
    ASSERT_EQ(made, used + stages) << "the producer must be a whole ring ahead, and no more";
    ASSERT_TRUE(full[consumer.stage].over(consumer.phase)) << "use " << used;
    EXPECT_EQ(holds[consumer.stage], used);
    empty[consumer.stage].arrive();
    consumer.advance();
  }
}

TEST(SetMaxNReg, OneStepTooManyDoesNotFit) {
  EXPECT_TRUE(ptx::registers_fit(24, 240, 2));
  EXPECT_FALSE(ptx::registers_fit(32, 240, 2)) << "compiles, and hangs on the device";
  EXPECT_TRUE(ptx::registers_fit(32, 160, 3));
  EXPECT_FALSE(ptx::registers_fit(40, 160, 3));
  EXPECT_EQ(ptx::registers_at_launch(2), 255);
}

}  // namespace
}  // namespace tilefold::cuda
