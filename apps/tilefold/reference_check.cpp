// Each row is a problem of its own: the same keys and positions, one query.
#include "reference_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/attention.hpp"

namespace tilefold::cli {

namespace {

// Largest differences of one sequence and head.
struct Errors {
  double ours = 0, eager = 0, size = 0;
  std::int64_t not_finite = 0;
  void add(double got, double eager_got, double want) {
    if (!std::isfinite(want)) {
      // -inf is an empty row's lse; other non-finite numbers may be of any kind.
      const bool same = std::isinf(want) && want < 0 ? got == want : !std::isfinite(got);
      if (!same) ours = std::numeric_limits<double>::infinity();
      ++not_finite;
      return;
    }
    raise(ours, got - want);
    raise(eager, eager_got - want);  // scores that leave float32 leave it in eager attention too
    size = std::max(size, std::abs(want));
  }
  double ratio(double factor, double epsilon) const {
    const double allowed = factor * eager + epsilon * size;
    return ours == 0 || std::isinf(allowed) ? 0 : ours / allowed;
  }

 private:
  /// A difference that is NaN is as large as can be.
  static void raise(double& largest, double difference) {
    largest = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                     : std::max(largest, std::abs(difference));
  }
};

struct RowOfBatch {
  int sequence, row;
};

std::vector<RowOfBatch> choose_rows(const core::Geometry& g, std::int64_t most,
                                    std::int64_t& of_rows) {
  std::vector<RowOfBatch> rows;
  of_rows = 0;
  for (const core::Sequence& s : g.sequences) of_rows += s.query_length;
  const std::int64_t count = std::min(most, of_rows);
  std::int64_t index = 0, begin = 0;
  for (int b = 0; b < g.batch; ++b) {
    const std::int64_t end = begin + g.sequences[std::size_t(b)].query_length;
    // Both ends of the batch are among them: row i of `count` is i * (of - 1) / (count - 1).
    for (; index < count; ++index) {
      const std::int64_t at = count == 1 ? 0 : index * (of_rows - 1) / (count - 1);
      if (at >= end) break;
      rows.push_back({b, int(at - begin)});
    }
    begin = end;
  }
  return rows;
}

/// A problem of one row is asked at its own place, of which the number of queries is another:
/// formulas that read it must see the whole problem's.
score::TilePositions of_whole(score::TilePositions tile, const core::Geometry& whole) {
  tile.place.query_length = whole.sequences[std::size_t(tile.place.batch)].query_length;
  return tile;
}
class WholeMask final : public score::MaskNode {
 public:
  WholeMask(Mask mask, const core::Geometry& whole) : mask_(std::move(mask)), whole_(whole) {}
  void keep(const score::TilePositions& tile, unsigned char* flags, int row) const override {
    mask_.node()->keep(of_whole(tile, whole_), flags, row);
  }
  score::Truth classify(score::Interval, score::Interval, const score::Place&) const override {
    return score::Truth::some;
  }
  std::string text() const override { return mask_.text(); }

 private:
  Mask mask_;
  const core::Geometry& whole_;
};
class WholeChange final : public score::ScoreNode {
 public:
  WholeChange(ScoreChange change, const core::Geometry& whole)
      : change_(std::move(change)), whole_(whole) {}
  void change(const score::TilePositions& tile, float* scores, int row) const override {
    change_.node()->change(of_whole(tile, whole_), scores, row);
  }
  void change(const score::TilePositions& tile, double* scores, int row) const override {
    change_.node()->change(of_whole(tile, whole_), scores, row);
  }
  void differentiate(const score::TilePositions& tile, double* scores, double* slopes,
                     int row) const override {
    change_.node()->differentiate(of_whole(tile, whole_), scores, slopes, row);
  }
  std::string text() const override { return change_.text(); }

 private:
  ScoreChange change_;
  const core::Geometry& whole_;
};

class Check {
 public:
  explicit Check(const Problem& problem)
      : problem_(problem),
        g_(core::resolve(problem)),
        row_options_(problem.options),
        out_(std::size_t(g_.batch * g_.query_heads)),
        lse_(out_.size()) {
    if (problem.options.mask.node() != nullptr)
      row_options_.mask = Mask(std::make_shared<WholeMask>(problem.options.mask, g_));
    if (problem.options.score.node() != nullptr)
      row_options_.score = ScoreChange(std::make_shared<WholeChange>(problem.options.score, g_));
  }

  ReferenceCheck run(std::int64_t most_rows, const std::function<void(double)>& progress) {
    ReferenceCheck check;
    const std::vector<RowOfBatch> rows = choose_rows(g_, most_rows, check.of_rows);
    check.rows = std::int64_t(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      compare(rows[i]);
      progress(double(i + 1) / double(rows.size()));
    }
    const double epsilon = g_.computes_in_double() ? 1e-12 : 1e-5;
    const double factor = is_fp8(g_.query_dtype) ? 4 : 2;
    for (const Errors& e : out_) {
      check.out_error = std::max(check.out_error, e.ours);
      check.out_eager_error = std::max(check.out_eager_error, e.eager);
      check.not_finite += e.not_finite;
      check.worst_ratio = std::max(check.worst_ratio, e.ratio(factor, epsilon));
    }
    for (const Errors& e : lse_) {
      check.lse_error = std::max(check.lse_error, e.ours);
      check.lse_eager_error = std::max(check.lse_eager_error, e.eager);
      check.worst_ratio = std::max(check.worst_ratio, e.ratio(factor, epsilon));
    }
    return check;
  }

 private:
  void compare(RowOfBatch at) {
    core::Geometry g = g_;
    Tensors t = problem_.tensors;
    for (core::Sequence& s : g.sequences) s.query_length = 0;
    core::Sequence& s = g.sequences[std::size_t(at.sequence)];
    s.query_length = 1;
    s.query_start += g.query_stride * at.row;
    if (g.query_layout == core::QueryLayout::ragged) {
      s.query_begin += at.row;
    } else {
      t.query = t.query.slice(1, at.row, at.row + 1);
      TensorView& scale = t.query_descale.scale;
      if (scale && t.query_descale.per == Granularity::token)
        scale = scale.slice(1, at.row, at.row + 1);
    }
    if (t.bias && t.bias.dim(2) > 1) t.bias = t.bias.slice(2, at.row, at.row + 1);
    const reference::Case row{g, t, row_options_};
    const reference::Result want = reference::forward(row), eager = reference::eager(row);
    for (int head = 0; head < g.query_heads; ++head) {
      const std::size_t group = std::size_t(at.sequence * g.query_heads + head);
      const std::int64_t offset = out_offset(at, head);
      for (int c = 0; c < g.value_dim; ++c)
        out_[group].add(reference::element(problem_.tensors.out, offset + c),
                        eager.out.at(at.sequence, 0, head)[c],
                        want.out.at(at.sequence, 0, head)[c]);
      if (problem_.tensors.lse)
        lse_[group].add(reference::element(problem_.tensors.lse, lse_offset(at, head)),
                        *eager.lse.at(at.sequence, 0, head), *want.lse.at(at.sequence, 0, head));
    }
  }

  std::int64_t row_of(RowOfBatch at) const {
    return g_.sequences[std::size_t(at.sequence)].query_begin + at.row;
  }
  std::int64_t out_offset(RowOfBatch at, int head) const {
    return core::RowAddress::of(problem_.tensors.out).offset(at.sequence, row_of(at), head);
  }
  std::int64_t lse_offset(RowOfBatch at, int head) const {
    const TensorView& v = problem_.tensors.lse;
    if (v.rank() == 2) return head * v.stride(0) + row_of(at) * v.stride(1);
    return at.sequence * v.stride(0) + head * v.stride(1) + at.row * v.stride(2);
  }

  const Problem& problem_;
  const core::Geometry g_;
  Options row_options_;
  std::vector<Errors> out_, lse_;  // [sequence][head]
};

}  // namespace

ReferenceCheck check_against_reference(const Problem& problem, std::int64_t most_rows,
                                       const std::function<void(double part)>& progress) {
  return Check(problem).run(most_rows, progress);
}

}  // namespace tilefold::cli
