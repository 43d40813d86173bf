// A C++ program outside the tree: attends, and checks the result against what is known in advance.
//
// All keys are equal, so each query weighs its visible keys alike: query i of 4, causal, sees the
// values 0 .. i, whose mean is i / 2.
#include <tilefold/attention.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

int main() {
  constexpr int length = 4, dim = 8;
  std::vector<float> q(length * dim, 0.5f), k(length * dim, 1.0f), v(length * dim), o(length * dim);
  for (int i = 0; i < length; ++i)
    for (int d = 0; d < dim; ++d) v[std::size_t(i * dim + d)] = float(i);

  const tilefold::Extents shape{1, length, 1, dim};
  tilefold::attend({q.data(), shape}, {k.data(), shape}, {v.data(), shape}, {o.data(), shape},
                   {.mask = tilefold::causal()});
  for (int i = 0; i < length; ++i) {
    const float got = o[std::size_t(i * dim)], want = float(i) / 2;
    if (std::fabs(got - want) > 1e-6f) {
      std::printf("row %d is %g, not %g\n", i, double(got), double(want));
      return 1;
    }
  }

  // A refusal crosses the library's border as tilefold::Error.
  try {
    tilefold::attend({q.data(), shape}, {k.data(), {1, length, 3, dim}}, {v.data(), shape},
                     {o.data(), shape});
  } catch (const tilefold::Error& error) {
    std::printf("tilefold %s: rows right, misuse refused: %s\n", tilefold::version(), error.what());
    return 0;
  }
  std::printf("3 key heads for 1 query head were not refused\n");
  return 1;
}
