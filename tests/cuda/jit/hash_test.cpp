// FNV-1a of 128 bits: the values of its authors' table, and those of an independent computation.
#include "cuda/jit/hash.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tilefold::cuda::jit {
namespace {

std::string hash_of(const std::string& text) { return Hash().add(text.data(), text.size()).text(); }

TEST(Hash, IsFnv1aOf128Bits) {
  EXPECT_EQ(hash_of(""), "6c62272e07bb014262b821756295c58d");
  EXPECT_EQ(hash_of("a"), "d228cb696f1a8caf78912b704e4a8964");
  EXPECT_EQ(hash_of("hello"), "e3e1efd54283d94f7081314b599d31b3");
  EXPECT_EQ(hash_of("foobar"), "343e1662793c64bf6f0d3597ba446f18");
}

TEST(Hash, GoesOnWhereItStopped) {
  const Hash parts = Hash().add("foo", 3).add("bar", 3);
  EXPECT_EQ(parts.text(), hash_of("foobar"));
  EXPECT_EQ(parts, Hash().add("foobar", 6));
}

}  // namespace
}  // namespace tilefold::cuda::jit
