// Formulas as values: a Mask says which keys a query sees, a ScoreChange what happens to a score.
//
//   options.mask  = tilefold::causal() && tilefold::window(4095);
//   options.mask  = tilefold::causal() || tilefold::prefix(lengths);          // prefix LM
//   options.mask  = tilefold::mask([](auto q, auto k, auto at) { return k <= q + at.offset; });
//   options.score = tilefold::softcap(30.0).then(tilefold::alibi(slopes));
//
// A formula is written once, over number types (score/): read with int it answers for an element,
// with Interval for a whole tile, with Dual it gives its derivative. A functor whose body cannot be
// read with Interval (it indexes memory, say) is wrapped as mask<Reading::elements>(F{...}): right
// everywhere, and no tile is skipped on its word.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tilefold/score/compose.hpp"
#include "tilefold/tensor_view.hpp"

namespace tilefold {

namespace score {

/// The most (query, key) pairs that one call of a formula covers.
inline constexpr int max_tile_queries = 64, max_tile_keys = 64;

/// Positions of one rectangle of scores: queries of one head against consecutive keys.
/// Query r stands at position query_first + r * query_step, key c at key_first + c * key_step.
struct TilePositions {
  int query_first, query_step, queries;  // queries <= max_tile_queries
  int key_first, key_step, keys;         // keys <= max_tile_keys
  Place place;
};

/// What a problem reaches: plan() refuses formulas whose side tensors are smaller.
struct Extent {
  int sequences, query_heads;
  std::int64_t query_positions, key_positions;  // positions lie in [0, these)
  int kv_heads = 1;
};

class MaskNode;
class ScoreNode;
struct SideTensorState;

/// What a built-in mask says of itself, so that a backend may compute it from data. `code` is a
/// functor, which can only be called. Pointers live as long as the node.
struct MaskDescription {
  enum class Kind { code, everything, causal, window, prefix, document, both, either, negated };
  Kind kind = Kind::code;
  int left = -1, right = -1;        // window
  const Lookup* lookup = nullptr;   // prefix and document, on the host
  int sequences = 0;                // rows of the lookup
  const MaskNode* first = nullptr;  // both, either, negated
  const MaskNode* second = nullptr;
};
inline MaskDescription described(const Everything&) {
  return {.kind = MaskDescription::Kind::everything};
}
inline MaskDescription described(const Causal&) { return {.kind = MaskDescription::Kind::causal}; }
inline MaskDescription described(const Window& window) {
  return {.kind = MaskDescription::Kind::window, .left = window.left, .right = window.right};
}
template <class Functor> MaskDescription described(const Functor&) { return {}; }

/// Likewise for a score change.
struct ScoreDescription {
  enum class Kind { code, softcap, alibi, bias, chain };
  Kind kind = Kind::code;
  double cap = 0;                      // softcap
  const TensorView* tensor = nullptr;  // alibi [Hq] or [B, Hq] and bias [B, H, Sq, Sk], on the host
  const ScoreNode* first = nullptr;    // chain
  const ScoreNode* second = nullptr;
};

using VisitSideTensor = std::function<void(SideTensorState& tensor)>;
using NameTerm = std::function<void(const std::string& term)>;

/// A mask behind a pointer. Flags and scores are laid out [key][query]: a row holds the queries of
/// one key, `row` elements from the next key's.
class MaskNode {
 public:
  virtual ~MaskNode() = default;
  /// flags[c * row + r] = 1 where query r sees key c, else 0.
  virtual void keep(const TilePositions& tile, unsigned char* flags, int row) const = 0;
  /// All, some or none of the pairs; Truth::some where the formula cannot say.
  virtual Truth classify(Interval queries, Interval keys, const Place& place) const = 0;
  virtual std::string text() const = 0;
  /// The formula as data, where it is a built-in or made of built-ins.
  virtual MaskDescription describe() const { return {}; }
  /// The functor behind a node made by mask(F{}), and its type: kernels may be compiled for it.
  virtual const void* functor() const { return nullptr; }
  virtual const std::type_info& functor_type() const { return typeid(void); }
  /// Throws Error(shape_mismatch) when a side tensor has too few entries for the problem.
  virtual void require_fit(const Extent& extent) const { (void)extent; }
  /// Changes with every new value of a scalar or side tensor that the formula reads.
  virtual unsigned revision() const { return 0; }
  /// A side tensor that lies on a device; null where none does.
  virtual const TensorView* device_tensor() const { return nullptr; }
  /// The side tensors of formulas that were built at run time.
  virtual void each_side_tensor(const VisitSideTensor& visit) const { (void)visit; }
  /// Names the terms whose answer about the tile is `some` although all its elements agree: they
  /// make tiles partial that are not.
  virtual void name_blunt_terms(const TilePositions& tile, const NameTerm& name) const;
};

/// A score change behind a pointer; scores are changed in place.
class ScoreNode {
 public:
  virtual ~ScoreNode() = default;
  virtual void change(const TilePositions& tile, float* scores, int row) const = 0;
  virtual void change(const TilePositions& tile, double* scores, int row) const = 0;
  /// scores become the changed ones, slopes[...] is multiplied by d(changed) / d(score).
  virtual void differentiate(const TilePositions& tile, double* scores, double* slopes,
                             int row) const = 0;
  virtual std::string text() const = 0;
  virtual ScoreDescription describe() const { return {}; }
  virtual const void* functor() const { return nullptr; }
  virtual const std::type_info& functor_type() const { return typeid(void); }
  virtual void require_fit(const Extent& extent) const { (void)extent; }
  virtual unsigned revision() const { return 0; }
  virtual const TensorView* device_tensor() const { return nullptr; }
};

}  // namespace score

/// How much of a functor tilefold may read.
enum class Reading {
  tiles,     ///< with int and with Interval: hidden tiles are skipped
  elements,  ///< with int only
};

/// Which keys a query sees. The default Mask keeps every key.
class Mask {
 public:
  Mask() = default;
  explicit Mask(std::shared_ptr<const score::MaskNode> node) : node_(std::move(node)) {}
  /// Null for the Mask that keeps every key.
  const score::MaskNode* node() const noexcept { return node_.get(); }
  /// "causal && window(4095, -1)"; "all" for the default.
  std::string text() const;

  friend Mask operator&&(const Mask& a, const Mask& b);
  friend Mask operator||(const Mask& a, const Mask& b);
  friend Mask operator!(const Mask& a);

 private:
  std::shared_ptr<const score::MaskNode> node_;
};

/// What happens to a score before the masks. The default changes nothing.
class ScoreChange {
 public:
  ScoreChange() = default;
  explicit ScoreChange(std::shared_ptr<const score::ScoreNode> node) : node_(std::move(node)) {}
  const score::ScoreNode* node() const noexcept { return node_.get(); }
  std::string text() const;
  /// This change first, then the next on what it gives.
  ScoreChange then(const ScoreChange& next) const;

 private:
  std::shared_ptr<const score::ScoreNode> node_;
};

/// k <= q + offset, offset = Sk - Sq: the last query sees the last key.
Mask causal();
/// q + offset - left <= k <= q + offset + right, inclusive; negative is unbounded. The W latest
/// tokens, itself included: causal() && window(W - 1).
Mask window(int left, int right = -1);
/// The first `length` keys of every sequence.
Mask prefix(int length);
/// The first lengths[b] keys of sequence b. lengths: [B] int32 on the host, copied.
Mask prefix(const TensorView& lengths);
/// id[q + offset] == id[k]. ids: int32 on the host, [positions] or [B, positions], one entry per
/// key position; last axis contiguous. The memory must stay valid and unchanged while the mask
/// lives.
Mask documents(const TensorView& ids);
/// cap * tanh(s / cap). Throws Error(invalid_argument) unless cap is positive and finite.
ScoreChange softcap(double cap);
/// s + slope_h * (k - (q + offset)). slopes: f32 on the host, [Hq] or [B, Hq]; must stay valid.
ScoreChange alibi(const TensorView& slopes);
/// s + bias[b, h, q, k] at the positions q and k. bias: f32 on the host, [B or 1, Hq or 1, Sq, Sk],
/// last axis contiguous; must stay valid. -inf hides the key.
ScoreChange additive_bias(const TensorView& bias);
/// The slopes of the ALiBi paper (Press et al. 2021) for `heads` query heads, into
/// slopes[0..heads).
void alibi_slopes(int heads, float* slopes);

/// A side tensor of integers for a functor of one's own, with the bounds that intervals read.
class LookupTable {
 public:
  /// values: int32 on the host, [positions] or [B, positions]; last axis contiguous. The memory
  /// must stay valid and unchanged while the table lives, and the table while a formula reads it.
  explicit LookupTable(const TensorView& values);
  LookupTable(const LookupTable&) = delete;
  LookupTable& operator=(const LookupTable&) = delete;
  const score::Lookup& lookup() const noexcept { return lookup_; }

 private:
  std::vector<int> low_, high_;
  score::Lookup lookup_{};
};

namespace score {

template <MaskFunctor M, Reading reading> class FunctorMask final : public MaskNode {
 public:
  FunctorMask(M functor, std::string text) : functor_(std::move(functor)), text_(std::move(text)) {}
  void keep(const TilePositions& tile, unsigned char* flags, int row) const override {
    for (int c = 0; c < tile.keys; ++c) {
      const int key = tile.key_first + c * tile.key_step;
      for (int r = 0; r < tile.queries; ++r)
        flags[c * row + r] =
            decided(functor_.keep(tile.query_first + r * tile.query_step, key, tile.place));
    }
  }
  Truth classify(Interval queries, Interval keys, const Place& place) const override {
    if constexpr (reading == Reading::tiles) return functor_.keep(queries, keys, place);
    return Truth::some;
  }
  std::string text() const override { return text_; }
  MaskDescription describe() const override { return described(functor_); }
  const void* functor() const override { return &functor_; }
  const std::type_info& functor_type() const override { return typeid(M); }

 private:
  M functor_;
  std::string text_;
};

template <ChangeFunctor C> class FunctorChange final : public ScoreNode {
 public:
  FunctorChange(C functor, std::string text)
      : functor_(std::move(functor)), text_(std::move(text)) {}
  void change(const TilePositions& tile, float* scores, int row) const override {
    change_all(tile, scores, row);
  }
  void change(const TilePositions& tile, double* scores, int row) const override {
    change_all(tile, scores, row);
  }
  void differentiate(const TilePositions& tile, double* scores, double* slopes,
                     int row) const override {
    each(tile, row, [&](int at, int q, int k) {
      if (is_hidden(scores[at])) {
        slopes[at] = 0;
        return;
      }
      const Dual<double> y = functor_.change(Dual<double>::variable(scores[at]), q, k, tile.place);
      scores[at] = y.value;
      slopes[at] *= y.slope;
    });
  }
  std::string text() const override { return text_; }
  const void* functor() const override { return &functor_; }
  const std::type_info& functor_type() const override { return typeid(C); }

 private:
  // A score that an earlier change made -inf is hidden, whatever this one would make of it.
  template <class F> static bool is_hidden(F score) { return score == -F(__builtin_huge_val()); }
  template <class F> void change_all(const TilePositions& tile, F* scores, int row) const {
    each(tile, row, [&](int at, int q, int k) {
      const F changed = functor_.change(scores[at], q, k, tile.place);
      scores[at] = is_hidden(scores[at]) ? scores[at] : changed;
    });
  }
  template <class Visit> static void each(const TilePositions& tile, int row, const Visit& visit) {
    for (int c = 0; c < tile.keys; ++c)
      for (int r = 0; r < tile.queries; ++r)
        visit(c * row + r, tile.query_first + r * tile.query_step,
              tile.key_first + c * tile.key_step);
  }
  C functor_;
  std::string text_;
};

// A generic lambda (q, k, at) or (s, q, k, at) as a functor.
template <class F> struct LambdaMask {
  F body;
  template <class N> auto keep(N q, N k, Place at) const { return body(q, k, at); }
};
template <class F> struct LambdaChange {
  F body;
  template <class S, class N> S change(S s, N q, N k, Place at) const { return body(s, q, k, at); }
};

}  // namespace score

/// A functor with keep(q, k, at), at namespace scope if CUDA is to compile it too.
template <Reading reading = Reading::tiles, score::MaskFunctor M>
Mask mask(M functor, std::string text = "mask functor") {
  return Mask(
      std::make_shared<score::FunctorMask<M, reading>>(std::move(functor), std::move(text)));
}
/// A generic lambda over (q, k, at): runs where the CPU runs it.
template <Reading reading = Reading::tiles, class F>
requires(!score::MaskFunctor<F> && std::invocable<const F&, int, int, score::Place>) Mask
    mask(F body, std::string text = "mask lambda") {
  return mask<reading>(score::LambdaMask<F>{std::move(body)}, std::move(text));
}
/// A functor with change(s, q, k, at).
template <score::ChangeFunctor C>
ScoreChange change(C functor, std::string text = "score functor") {
  return ScoreChange(
      std::make_shared<score::FunctorChange<C>>(std::move(functor), std::move(text)));
}
/// A generic lambda over (s, q, k, at).
template <class F>
requires(!score::ChangeFunctor<F> &&
         std::invocable<const F&, float, int, int, score::Place>) ScoreChange
    change(F body, std::string text = "score lambda") {
  return change(score::LambdaChange<F>{std::move(body)}, std::move(text));
}

}  // namespace tilefold
