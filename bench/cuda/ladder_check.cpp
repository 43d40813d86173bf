#include "bench/cuda/ladder_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel_for.hpp"

namespace tilefold::bench {

namespace {

using cuda::ladder::Shape;

void compute(const Shape& shape, const HostHead& head, ExactRow& row) {
  const std::size_t columns = std::size_t(shape.head_dim);
  const std::size_t seen = std::size_t(shape.keys_seen(row.row));
  const double* const query = head.query.data() + std::size_t(row.row) * columns;
  std::vector<double> weights(seen);
  row.out.assign(columns, 0.0);
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t k = 0; k < seen; ++k) {
    double dot = 0;
    for (std::size_t d = 0; d < columns; ++d) dot += query[d] * head.key[k * columns + d];
    weights[k] = dot * double(shape.scale);
    largest = std::max(largest, weights[k]);
  }
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  for (std::size_t k = 0; k < seen; ++k)
    for (std::size_t d = 0; d < columns; ++d)
      row.out[d] += weights[k] / sum * head.value[k * columns + d];
}

}  // namespace

std::vector<int> sampled_rows(int query_length, int count) {
  std::vector<int> rows;
  for (int i = 0; i < std::min(count, query_length); ++i) {
    const int last = std::max(1, std::min(count, query_length) - 1);
    rows.push_back(int(std::int64_t(query_length - 1) * i / last));
  }
  return rows;
}

std::vector<ExactRow> exact_rows(const Shape& shape, std::span<const HostHead> heads,
                                 int rows_a_head) {
  const std::vector<int> sampled = sampled_rows(shape.query_length, rows_a_head);
  std::vector<ExactRow> rows;
  for (const HostHead& head : heads)
    for (const int row : sampled) rows.push_back({head.head_index, row, {}});
  core::parallel_for(std::int64_t(rows.size()), core::thread_count(0), [&](std::int64_t i, int) {
    compute(shape, heads[std::size_t(i) / sampled.size()], rows[std::size_t(i)]);
  });
  return rows;
}

void Difference::take(const ExactRow& exact, std::span<const double> got) {
  for (std::size_t d = 0; d < exact.out.size(); ++d) {
    const double off = std::abs(got[d] - exact.out[d]);
    error = off <= error ? error : std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
    reference = std::max(reference, std::abs(exact.out[d]));
  }
}

}  // namespace tilefold::bench
