// Finds the worst element of a result by the accuracy rule.
#include "support/accuracy.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilefold::testing {

namespace {

using reference::Table;
constexpr double infinity = std::numeric_limits<double>::infinity();

struct HeadBounds {
  double eager_error = 0, largest = 0;
};

HeadBounds bounds_of(const Table& want, const Table& eager, int b, int head) {
  HeadBounds bounds;
  for (int row = 0; row < want.rows(b); ++row)
    for (int c = 0; c < want.columns(); ++c) {
      const double x = want.at(b, row, head)[c], y = eager.at(b, row, head)[c];
      if (!std::isfinite(x)) continue;
      bounds.largest = std::max(bounds.largest, std::abs(x));
      if (std::isfinite(y))
        bounds.eager_error = std::max(bounds.eager_error, std::abs(y - x));
      else
        bounds.eager_error = infinity;
    }
  return bounds;
}

// Eager's largest error over a handful of numbers says little of eager: where a head has fewer than
// 16, the heads of its sequence are taken together.
constexpr int few_numbers = 16;

HeadBounds yardstick(const Table& want, const Table& eager, int b, int head) {
  HeadBounds bounds = bounds_of(want, eager, b, head);
  if (want.rows(b) * want.columns() >= few_numbers) return bounds;
  for (int other = 0; other < want.heads(); ++other)
    bounds.eager_error = std::max(bounds.eager_error, bounds_of(want, eager, b, other).eager_error);
  return bounds;
}

bool spreads(const AccuracyRule& rule, int sequence) {
  return std::size_t(sequence) < rule.may_spread_nan.size() &&
         rule.may_spread_nan[std::size_t(sequence)];
}

double ratio_of(double got, double want, double allowed, bool may_spread_nan) {
  if (!std::isfinite(want)) {
    // An empty row's lse is minus infinity and nothing else; any other non-finite number may be
    // any.
    if (want == -infinity) return got == want || (may_spread_nan && std::isnan(got)) ? 0 : infinity;
    return std::isfinite(got) ? infinity : 0;
  }
  if (!std::isfinite(got)) return may_spread_nan ? 0 : infinity;
  const double error = std::abs(got - want);
  return error == 0 ? 0 : allowed == 0 ? infinity : error / allowed;
}

}  // namespace

AccuracyRule AccuracyRule::of_lse(const core::Geometry& geometry) {
  AccuracyRule rule = of_out(geometry);
  rule.smallest_size = 1;
  return rule;
}

AccuracyRule AccuracyRule::of_out(const core::Geometry& geometry) {
  AccuracyRule rule;
  if (geometry.computes_in_double()) rule.epsilon = 1e-12;
  if (is_fp8(geometry.query_dtype)) rule.eager_factor = 4;
  return rule;
}

std::string Deviation::text() const {
  return fmt::format(
      "sequence {} head {} row {} column {}: got {:.9g}, want {:.9g}, difference {:.3g}, allowed "
      "{:.3g} ({:.3g} of it; {:.3g} of eager's error)",
      sequence, head, row, column, got, want, std::abs(got - want), allowed, ratio, eager_ratio);
}

Deviation worst_deviation(const Table& got, const Table& want, const Table& eager,
                          const AccuracyRule& rule) {
  Deviation worst;
  worst.ratio = -1;
  for (int b = 0; b < want.sequences(); ++b)
    for (int head = 0; head < want.heads(); ++head) {
      HeadBounds bounds = yardstick(want, eager, b, head);
      bounds.largest = std::max(bounds.largest, rule.smallest_size);
      const double allowed = rule.eager_factor * bounds.eager_error + rule.epsilon * bounds.largest;
      for (int row = 0; row < want.rows(b); ++row)
        for (int c = 0; c < want.columns(); ++c) {
          const double x = got.at(b, row, head)[c], y = want.at(b, row, head)[c];
          const double ratio = ratio_of(x, y, allowed, spreads(rule, b));
          if (!(ratio > worst.ratio)) continue;
          const double beyond = std::abs(x - y) - rule.epsilon * bounds.largest;
          worst = {b,
                   head,
                   row,
                   c,
                   x,
                   y,
                   allowed,
                   ratio,
                   bounds.eager_error > 0 ? std::max(0.0, beyond / bounds.eager_error) : 0};
        }
    }
  worst.ratio = std::max(worst.ratio, 0.0);
  return worst;
}

namespace {

/// Element of out: ragged [total, H, D] or dense [B, S, H, D].
std::int64_t out_offset(const core::Geometry& g, const TensorView& out, int b, std::int64_t row,
                        int head) {
  return g.query_layout == core::QueryLayout::ragged
             ? (g.sequences[std::size_t(b)].query_begin + row) * out.stride(0) +
                   head * out.stride(1)
             : b * out.stride(0) + row * out.stride(1) + head * out.stride(2);
}

/// Element of lse: ragged [H, total] or dense [B, H, S].
std::int64_t lse_offset(const core::Geometry& g, const TensorView& lse, int b, std::int64_t row,
                        int head) {
  return g.query_layout == core::QueryLayout::ragged
             ? head * lse.stride(0) +
                   (g.sequences[std::size_t(b)].query_begin + row) * lse.stride(1)
             : b * lse.stride(0) + head * lse.stride(1) + row * lse.stride(2);
}

std::vector<int> query_lengths(const core::Geometry& g) {
  std::vector<int> lengths;
  for (const core::Sequence& s : g.sequences) lengths.push_back(s.query_length);
  return lengths;
}

template <class Visit>
void each_ownerless_row(const core::Geometry& g, const TensorView& out, const Visit& visit) {
  if (g.query_layout == core::QueryLayout::ragged) {
    const std::int64_t end =
        g.sequences.empty() ? 0 : g.sequences.back().query_begin + g.sequences.back().query_length;
    const int last = int(g.sequences.size()) - 1;
    for (std::int64_t row = end; row < out.dim(0) && last >= 0; ++row)
      visit(last, row - g.sequences.back().query_begin);
    return;
  }
  for (int b = 0; b < g.batch; ++b)
    for (std::int64_t row = g.sequences[std::size_t(b)].query_length; row < out.dim(1); ++row)
      visit(b, row);
}

}  // namespace

Table table_of_out(const core::Geometry& g, const TensorView& out) {
  Table table(query_lengths(g), g.query_heads, g.value_dim);
  for (int b = 0; b < g.batch; ++b)
    for (int row = 0; row < table.rows(b); ++row)
      for (int head = 0; head < g.query_heads; ++head)
        for (int c = 0; c < g.value_dim; ++c)
          table.at(b, row, head)[c] = reference::element(out, out_offset(g, out, b, row, head) + c);
  return table;
}

Table table_of_lse(const core::Geometry& g, const TensorView& lse) {
  Table table(query_lengths(g), g.query_heads, 1);
  for (int b = 0; b < g.batch; ++b)
    for (int row = 0; row < table.rows(b); ++row)
      for (int head = 0; head < g.query_heads; ++head)
        *table.at(b, row, head) = reference::element(lse, lse_offset(g, lse, b, row, head));
  return table;
}

std::string check_ownerless_rows(const core::Geometry& g, const TensorView& out,
                                 const TensorView& lse) {
  std::string fault;
  each_ownerless_row(g, out, [&](int b, std::int64_t row) {
    for (int head = 0; head < g.query_heads && fault.empty(); ++head) {
      for (int c = 0; c < g.value_dim; ++c) {
        const double x = reference::element(out, out_offset(g, out, b, row, head) + c);
        if (x != 0)
          fault = fmt::format("out of row {} (nobody's) head {}: got {}, want 0", row, head, x);
      }
      if (!lse) continue;
      const double x = reference::element(lse, lse_offset(g, lse, b, row, head));
      if (x != -infinity)
        fault = fmt::format("lse of row {} (nobody's) head {}: got {}, want -inf", row, head, x);
    }
  });
  return fault;
}

}  // namespace tilefold::testing
