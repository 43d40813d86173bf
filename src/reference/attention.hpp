// The definition of exact: attention in float64, materialised, forward and backward.
//
//   const core::Geometry geometry = core::resolve(problem);
//   const reference::Result exact = reference::forward({geometry, problem.tensors,
//   problem.options}); exact.out.at(sequence, row, head)[column];   exact.lse.at(sequence, row,
//   head)[0];
//
// Everything else in the project is measured against this file: it is written to be read, not to be
// fast. eager() is the same attention the way a framework materialises it, in the problem's own
// precision: the yardstick of the accuracy rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/geometry.hpp"
#include "tilefold/problem.hpp"

namespace tilefold::reference {

/// `columns` numbers for each (sequence, row, head), rows counted within their sequence.
class Table {
 public:
  Table() = default;
  Table(const std::vector<int>& rows_of_sequence, int heads, int columns, double fill = 0)
      : heads_(heads), columns_(columns) {
    for (int rows : rows_of_sequence) first_row_.push_back(first_row_.back() + rows);
    numbers_.assign(std::size_t(first_row_.back() * heads * columns), fill);
  }
  double* at(int sequence, int row, int head) {
    return numbers_.data() + index(sequence, row, head);
  }
  const double* at(int sequence, int row, int head) const {
    return numbers_.data() + index(sequence, row, head);
  }
  int sequences() const { return int(first_row_.size()) - 1; }
  int rows(int sequence) const {
    return int(first_row_[std::size_t(sequence) + 1] - first_row_[std::size_t(sequence)]);
  }
  int heads() const { return heads_; }
  int columns() const { return columns_; }

 private:
  std::int64_t index(int sequence, int row, int head) const {
    return ((first_row_[std::size_t(sequence)] + row) * heads_ + head) * columns_;
  }
  std::vector<std::int64_t> first_row_{0};  // [sequences + 1]
  int heads_ = 0, columns_ = 0;
  std::vector<double> numbers_;
};

/// A resolved problem, borrowed. Lengths and page tables are on the host.
struct Case {
  const core::Geometry& geometry;
  const Tensors& tensors;
  const Options& options;
};

struct Result {
  Table out;  // Dv columns
  Table lse;  // 1 column, natural log, the sink included
};

/// Gradients of sum(dout * out) + sum(dlse * lse) to the descaled inputs. With a value that is a
/// view of the key, the tensor's gradient is dk plus dv on the shared columns.
struct Gradients {
  Table dq;                    // Dqk columns, query heads
  Table dk, dv;                // Dqk and Dv columns, KV heads, summed over the group's query heads
  std::vector<double> dsinks;  // [Hq]; empty without sinks
  std::vector<double> dbias;   // in the bias tensor's own shape, contiguous; empty without a bias
};

Result forward(const Case& problem);

/// Scores, formula, softmax and sums in float32 (float64 for f64 queries); the normalised weights
/// are rounded to the query's dtype (bf16 for fp8) before they meet the values, the result to out's
/// dtype.
Result eager(const Case& problem);

/// dout has out's shape; dlse has lse's, or is null.
Gradients backward(const Case& problem, const Table& dout, const Table* dlse = nullptr);

/// Any element of a floating-point tensor, `index` elements from data().
double element(const TensorView& tensor, std::int64_t index);

/// x rounded to a floating-point type and widened again.
double rounded(double x, DType type);

}  // namespace tilefold::reference
