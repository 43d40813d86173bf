// Formula nodes that backends recognise, so that they may compute them faster than by the functor.
#pragma once

#include <memory>

#include "tilefold/formula.hpp"

namespace tilefold::score {

/// The positions of consecutive rows or keys, whatever the sign of their step.
inline Interval positions_of(int first, int step, int count) {
  const int last = first + step * (count - 1);
  return {smaller(first, last), larger(first, last)};
}
inline Interval queries_of(const TilePositions& tile) {
  return positions_of(tile.query_first, tile.query_step, tile.queries);
}
inline Interval keys_of(const TilePositions& tile) {
  return positions_of(tile.key_first, tile.key_step, tile.keys);
}
/// flags[c * row + r] are the same for all queries and keys.
bool all_alike(const unsigned char* flags, int queries, int keys, int row);

/// A soft cap on its own; a backend may read `cap` and use its own tanh.
class SoftCapNode final : public ScoreNode {
 public:
  SoftCapNode(SoftCap functor, std::string text)
      : cap(functor.cap), inner_(functor, std::move(text)) {}
  void change(const TilePositions& tile, float* scores, int row) const override {
    inner_.change(tile, scores, row);
  }
  void change(const TilePositions& tile, double* scores, int row) const override {
    inner_.change(tile, scores, row);
  }
  void differentiate(const TilePositions& tile, double* scores, double* slopes,
                     int row) const override {
    inner_.differentiate(tile, scores, slopes, row);
  }
  std::string text() const override { return inner_.text(); }
  ScoreDescription describe() const override {
    return {.kind = ScoreDescription::Kind::softcap, .cap = cap};
  }

  const double cap;

 private:
  FunctorChange<SoftCap> inner_;
};

/// first, then second on what it gives.
class ChainedChange final : public ScoreNode {
 public:
  using Pointer = std::shared_ptr<const ScoreNode>;
  ChainedChange(Pointer first, Pointer second);
  void change(const TilePositions& tile, float* scores, int row) const override;
  void change(const TilePositions& tile, double* scores, int row) const override;
  void differentiate(const TilePositions& tile, double* scores, double* slopes,
                     int row) const override;
  std::string text() const override;
  ScoreDescription describe() const override;
  void require_fit(const Extent& extent) const override;
  unsigned revision() const override;
  const TensorView* device_tensor() const override;
  const ScoreNode& first() const { return *first_; }
  const ScoreNode& second() const { return *second_; }

 private:
  Pointer first_, second_;
};

}  // namespace tilefold::score
