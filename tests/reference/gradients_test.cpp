// Law: every gradient of the reference is the derivative of its forward pass. Central differences
// on random problems with every option: layouts, masks, score changes, bias, sinks, views, empty
// rows.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "reference/attention.hpp"
#include "support/problem_generator.hpp"
#include "support/random.hpp"

namespace tilefold::testing {
namespace {

struct Loss {
  reference::Table dout, dlse;

  double operator()(const reference::Case& problem) const {
    const reference::Result r = reference::forward(problem);
    double sum = 0;
    for (int b = 0; b < r.out.sequences(); ++b)
      for (int row = 0; row < r.out.rows(b); ++row)
        for (int head = 0; head < r.out.heads(); ++head) {
          for (int c = 0; c < r.out.columns(); ++c)
            sum += dout.at(b, row, head)[c] * r.out.at(b, row, head)[c];
          const double weight = *dlse.at(b, row, head);
          if (weight != 0) sum += weight * *r.lse.at(b, row, head);
        }
    return sum;
  }
};

/// Random weights; 0 for the lse of rows that see nothing.
Loss random_loss(const reference::Result& r, const std::vector<int>& rows, Random& random) {
  Loss loss{reference::Table(rows, r.out.heads(), r.out.columns()),
            reference::Table(rows, r.out.heads(), 1)};
  for (int b = 0; b < r.out.sequences(); ++b)
    for (int row = 0; row < r.out.rows(b); ++row)
      for (int head = 0; head < r.out.heads(); ++head) {
        for (int c = 0; c < r.out.columns(); ++c) loss.dout.at(b, row, head)[c] = random.normal();
        const bool empty = std::isinf(*r.lse.at(b, row, head));
        *loss.dlse.at(b, row, head) = empty ? 0 : random.normal();
      }
  return loss;
}

bool all_finite(const reference::Result& r) {
  for (int b = 0; b < r.out.sequences(); ++b)
    for (int row = 0; row < r.out.rows(b); ++row)
      for (int head = 0; head < r.out.heads(); ++head)
        for (int c = 0; c < r.out.columns(); ++c)
          if (!std::isfinite(r.out.at(b, row, head)[c])) return false;
  return true;
}

/// Gradient by memory element: a page that two sequences share gathers both.
using ByElement = std::map<std::int64_t, double>;

void add_key_rows(const core::Geometry& g, const Problem& p, const TensorView& tensor,
                  const reference::Table& gradient, ByElement& sums) {
  for (int b = 0; b < g.batch; ++b)
    for (int j = 0; j < gradient.rows(b); ++j)
      for (int head = 0; head < g.kv_heads; ++head) {
        std::int64_t offset;
        if (g.key_layout == core::KeyLayout::paged) {
          const std::int64_t page = core::PageList(p.tensors.pages, b)[j / g.page_size];
          if (page < 0) continue;  // nobody sees these keys
          offset = core::PageAddress::of(tensor, p.options.page_layout)
                       .offset(page, j % g.page_size, head);
        } else {
          const std::int64_t begin = g.sequences[std::size_t(b)].key_begin;
          offset = core::RowAddress::of(tensor).offset(b, begin + j, head);
        }
        for (int c = 0; c < gradient.columns(); ++c) sums[offset + c] += gradient.at(b, j, head)[c];
      }
}

struct Check {
  const reference::Case& problem;
  const Loss& loss;
  Random& random;
  std::string where;
  std::map<std::string, int>& compared;  // tensor -> elements compared

  /// A few elements of one tensor, moved by `step` to both sides.
  void differences(const char* name, const TensorView& tensor, const ByElement& gradient,
                   double step) const {
    // The tensors belong to the test's own memory: writing through them is what the test does.
    auto* data = static_cast<unsigned char*>(const_cast<void*>(tensor.data()));
    const OutputView writable(data, tensor.dtype(), tensor.shape(), tensor.strides());
    int left = 6;
    for (const auto& [offset, slope] : gradient) {
      if (left == 0) break;
      if (!random.chance(std::max(0.1, 6.0 / double(gradient.size())))) continue;
      const double x = reference::element(tensor, offset);
      if (!std::isfinite(x)) continue;
      --left;
      ++compared[name];
      store_at(writable, offset, x + step);
      const double above = loss(problem);
      store_at(writable, offset, x - step);
      const double below = loss(problem);
      store_at(writable, offset, x);
      const double measured = (above - below) / (2 * step);
      EXPECT_NEAR(slope, measured, 2e-5 * (1 + std::abs(measured) + std::abs(above)))
          << name << " element " << offset << "\n"
          << where;
    }
  }
};

ByElement query_gradient(const core::Geometry& g, const TensorView& query,
                         const reference::Table& dq) {
  ByElement sums;
  for (int b = 0; b < g.batch; ++b)
    for (int i = 0; i < dq.rows(b); ++i)
      for (int head = 0; head < g.query_heads; ++head)
        for (int c = 0; c < g.head_dim; ++c)
          sums[core::RowAddress::of(query).offset(b, g.sequences[std::size_t(b)].query_begin + i,
                                                  head) +
               c] = dq.at(b, i, head)[c];
  return sums;
}

void check_gradients(const RandomProblem& drawn, Random& random,
                     std::map<std::string, int>& compared) {
  const Problem& p = drawn.problem;
  const core::Geometry g = core::resolve(p);
  const reference::Case problem{g, p.tensors, p.options};
  const reference::Result r = reference::forward(problem);
  if (!all_finite(r)) return;
  std::vector<int> rows;
  for (const core::Sequence& s : g.sequences) rows.push_back(s.query_length);
  const Loss loss = random_loss(r, rows, random);
  const reference::Gradients d = reference::backward(problem, loss.dout, &loss.dlse);
  const Check check{problem, loss, random, drawn.describe(), compared};
  check.differences("query", p.tensors.query, query_gradient(g, p.tensors.query, d.dq), 1e-5);
  ByElement dk, dv, dsinks, dbias;
  add_key_rows(g, p, p.tensors.key, d.dk, dk);
  const bool view = p.options.value_source == ValueSource::view_of_key;
  add_key_rows(g, p, view ? p.tensors.key : p.tensors.value, d.dv, view ? dk : dv);
  check.differences("key", p.tensors.key, dk, 1e-5);
  if (!view) check.differences("value", p.tensors.value, dv, 1e-5);
  for (std::size_t h = 0; h < d.dsinks.size(); ++h) dsinks[std::int64_t(h)] = d.dsinks[h];
  if (p.tensors.sinks) check.differences("sinks", p.tensors.sinks, dsinks, 0x1p-10);
  for (std::size_t i = 0; i < d.dbias.size(); ++i)
    dbias[offset_of(p.tensors.bias, std::int64_t(i))] = d.dbias[i];
  if (p.tensors.bias && p.tensors.bias.dtype() == DType::f64)
    check.differences("bias", p.tensors.bias, dbias, 1e-5);
}

TEST(ReferenceGradients, AreTheDerivativesOfTheForwardPass) {
  GeneratorLimits limits;
  limits.work = 2e4;
  limits.batch = 2;
  limits.query_length = 7;
  limits.key_length = 12;
  limits.head_dim = 7;
  limits.query_dtype = DType::f64;
  std::map<std::string, int> compared;
  for (std::uint64_t seed = 1; seed <= 400 && !::testing::Test::HasFailure(); ++seed) {
    const RandomProblem drawn = make_random_problem(seed, limits);
    Random random(seed);
    check_gradients(drawn, random, compared);
  }
  for (const char* tensor : {"query", "key", "value", "sinks", "bias"})
    EXPECT_GE(compared[tensor], 50) << tensor << ": too few elements were compared";
}

}  // namespace
}  // namespace tilefold::testing
