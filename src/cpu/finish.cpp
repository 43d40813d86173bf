// How rows leave: parts joined, sinks added, outputs divided, rounded and stored.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/block.hpp"
#include "cpu/convert.hpp"
#include "tilefold/fold.hpp"

namespace tilefold::cpu {

namespace {

constexpr int max_lanes = 64;  // of any TileKernel

/// Where a row of the query goes, in out and in lse.
class RowTarget {
 public:
  explicit RowTarget(const Tensors& tensors)
      : out_(tensors.out), lse_(tensors.lse), address_(core::RowAddress::of(tensors.out)) {}

  /// row counts within the sequence of a dense tensor, or within a whole ragged one.
  template <class F>
  void store(int sequence, std::int64_t row, int head, const F* values, F lse) const {
    const std::int64_t offset = address_.offset(sequence, row, head);
    const int columns = int(out_.dim(out_.rank() - 1));
    store_row(values, out_.dtype(),
              static_cast<char*>(out_.data()) + offset * bytes_of(out_.dtype()), columns);
    if (lse_.present()) store_lse(sequence, row, head, double(lse));
  }
  void clear(int sequence, std::int64_t row, int heads) const {
    const std::size_t bytes =
        std::size_t(out_.dim(out_.rank() - 1)) * std::size_t(bytes_of(out_.dtype()));
    for (int head = 0; head < heads; ++head) {
      const std::int64_t offset = address_.offset(sequence, row, head);
      std::memset(static_cast<char*>(out_.data()) + offset * bytes_of(out_.dtype()), 0, bytes);
      if (lse_.present()) store_lse(sequence, row, head, -std::numeric_limits<double>::infinity());
    }
  }

 private:
  void store_lse(int sequence, std::int64_t row, int head, double value) const {
    const std::int64_t at =
        lse_.rank() == 3 ? sequence * lse_.stride(0) + head * lse_.stride(1) + row * lse_.stride(2)
                         : head * lse_.stride(0) + row * lse_.stride(1);
    if (lse_.dtype() == DType::f64)
      lse_.as<double>()[at] = value;
    else
      lse_.as<float>()[at] = float(value);
  }

  const OutputView &out_, &lse_;
  core::RowAddress address_;
};

/// Divides one row into `row` and returns its lse.
template <class F>
F divide(fold::Part<F> part, const F* output, int lanes, int columns, const F* sink, F* row) {
  fold::Part<F> joined = part;
  fold::Weights<F> weights{F(1), F(0)};
  // A sink is a part without value: {sink, 1}, joined once.
  if (sink != nullptr) joined = fold::join(part, fold::Part<F>{*sink, F(1)}, weights);
  if (part.is_empty()) {
    std::fill(row, row + columns, F(0));
  } else {
    for (int c = 0; c < columns; ++c) row[c] = output[c * lanes] * weights.left / joined.sum;
  }
  return fold::log_sum(joined);
}

}  // namespace

template <class F>
void join_blocks(const BlockState<F>& into, const BlockState<F>& part, int tiles) {
  const int lanes = into.lanes;
  for (int t = 0; t < tiles; ++t) {
    const RowState<F> left = into.tile(t), right = part.tile(t);
    alignas(64) std::array<F, max_lanes> left_weight, right_weight;
    for (int lane = 0; lane < lanes; ++lane) {
      fold::Weights<F> weights;
      const fold::Part<F> joined =
          fold::join(fold::Part<F>{left.max[lane], left.sum[lane]},
                     fold::Part<F>{right.max[lane], right.sum[lane]}, weights);
      left.max[lane] = joined.max;
      left.sum[lane] = joined.sum;
      left_weight[std::size_t(lane)] = weights.left;
      right_weight[std::size_t(lane)] = weights.right;
    }
    for (int c = 0; c < into.value_dim; ++c) {
      F* to = left.output + std::ptrdiff_t(c) * lanes;
      const F* from = right.output + std::ptrdiff_t(c) * lanes;
      for (int lane = 0; lane < lanes; ++lane)
        to[lane] = to[lane] * left_weight[std::size_t(lane)] +
                   from[lane] * right_weight[std::size_t(lane)];
    }
  }
}

template <class F> void finish_rows(const Job& job, const planner::WorkItem& item,
                                    const BlockState<F>& state, F* row) {
  const core::Geometry& g = job.geometry;
  const core::Sequence& s = g.sequences[std::size_t(item.sequence)];
  const TensorView& sinks = job.tensors.sinks;
  const RowTarget target(job.tensors);
  planner::for_each_run(g, item.sequence, item.kv_head, item.first_row, item.last_row,
                        [&](const planner::RowRun& run) {
                          F sink = 0;
                          if (sinks.present())
                            sink = F(sinks.as<float>()[run.query_head * sinks.stride(0)]);
                          for (int r = 0; r < run.count; ++r) {
                            const RowState<F> tile = state.tile((run.lane + r) / state.lanes);
                            const int lane = (run.lane + r) % state.lanes;
                            const F lse = divide(fold::Part<F>{tile.max[lane], tile.sum[lane]},
                                                 tile.output + lane, state.lanes, g.value_dim,
                                                 sinks.present() ? &sink : nullptr, row);
                            target.store(item.sequence, s.query_begin + run.first_query + r,
                                         run.query_head, row, lse);
                          }
                        });
}

void clear_unowned_rows(const Job& job) {
  const core::Geometry& g = job.geometry;
  const RowTarget target(job.tensors);
  if (g.query_layout == core::QueryLayout::dense) {
    const std::int64_t rows = job.tensors.out.dim(1);
    for (int b = 0; b < g.batch; ++b)
      for (std::int64_t row = g.sequences[std::size_t(b)].query_length; row < rows; ++row)
        target.clear(b, row, g.query_heads);
    return;
  }
  const std::int64_t owned =
      g.sequences.empty() ? 0 : g.sequences.back().query_begin + g.sequences.back().query_length;
  for (std::int64_t row = owned; row < g.total_query_rows; ++row)
    target.clear(0, row, g.query_heads);
}

template void join_blocks(const BlockState<float>&, const BlockState<float>&, int);
template void join_blocks(const BlockState<double>&, const BlockState<double>&, int);
template void finish_rows(const Job&, const planner::WorkItem&, const BlockState<float>&, float*);
template void finish_rows(const Job&, const planner::WorkItem&, const BlockState<double>&, double*);

}  // namespace tilefold::cpu
