// Formulas built at run time: from expressions in C++, or from text. No functor, no compiler on
// the user's side; new values of scalars and side tensors never recompile anything.
//
//   using namespace tilefold::symbols;
//   tilefold::SideTensor doc("doc", ids);                  // int32 [positions]
//   tilefold::Scalar reach("reach", 4096);
//   options.mask  = tilefold::mask(k <= q + off && doc[q + off] == doc[k] && q + off - k < reach);
//   options.score = tilefold::change(s + slope[head] * real(k - (q + off)));
//   options.mask  = tilefold::parse_mask("k <= q + off and doc[q + off] == doc[k]", {{doc}});
//
// Values are integers (32 bits, which saturate), reals (float32 in masks, the score's own type in
// score changes) or truths. docs/formulas.md lists every operation, and what each does at the ends
// of its range.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tilefold/formula.hpp"
#include "tilefold/tensor_view.hpp"

namespace tilefold {

class Expression;

namespace score {
struct ExpressionNode;
struct SideTensorState;
struct ScalarState;
}  // namespace score

/// A number that a formula reads, which may change between runs. Copies share it. Names, of tensors
/// too, are letters, digits and _, and no word that texts of formulas mean something else by (q,
/// head, if, ...); one formula has no name twice.
class Scalar {
 public:
  /// Of integers: within +-2^27, so that sums with positions cannot overflow.
  Scalar(std::string name, int value);
  Scalar(std::string name, double value);
  // No moves: what was moved from would be no scalar.
  Scalar(const Scalar&) = default;
  Scalar& operator=(const Scalar&) = default;
  /// Not while a run reads it. Throws Error(invalid_argument) for an integer outside +-2^27, a real
  /// that is NaN or finite and beyond float32, or a real given to an integer.
  void set(int value);
  void set(double value);
  const std::string& name() const;
  const std::shared_ptr<score::ScalarState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<score::ScalarState> state_;
};

/// A tensor that a formula reads by indices. Copies share it.
class SideTensor {
 public:
  /// values: 1 to 4 axes, no extent 0, at most 2^31 - 1 entries an axis; i32, i64, i8, u8 or
  /// boolean entries are integers (boolean ones truths), f32, f64, f16 and bf16 ones reals. i32 and
  /// f32 on the host are read where they lie and must stay valid; others are copied. i64 entries
  /// must fit into 32 bits.
  SideTensor(std::string name, const TensorView& values);
  // No moves, as above.
  SideTensor(const SideTensor&) = default;
  SideTensor& operator=(const SideTensor&) = default;
  /// The same shape and dtype with other contents, or the same memory after it was written. Not
  /// while a run reads it.
  void update(const TensorView& values);
  const std::string& name() const;
  /// Entry [i], [i, j], ...: as many indices as axes. An index outside its axis reads the nearest
  /// entry of it; plan() refuses a tensor that has fewer entries than a bare index (batch, head,
  /// kv_head, q, k, q + off) reaches.
  Expression operator[](const Expression& index) const;
  Expression operator()(const Expression& a, const Expression& b) const;
  Expression operator()(const Expression& a, const Expression& b, const Expression& c) const;
  Expression operator()(const Expression& a, const Expression& b, const Expression& c,
                        const Expression& d) const;
  const std::shared_ptr<score::SideTensorState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<score::SideTensorState> state_;
};

/// Immutable; copies share it. Operators throw Error(invalid_argument) where the kinds do not fit.
class Expression {
 public:
  Expression(int value);
  /// Infinite, or within float32, in which masks and devices read it; throws
  /// Error(invalid_argument) otherwise.
  Expression(double value);
  /// Of any integer that 32 bits hold; throws Error(invalid_argument) of others.
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool> && !std::same_as<Integer, int>) Expression(Integer value)
      : Expression(held(fits(value), static_cast<int>(value))) {}
  template <std::same_as<bool> Truth> Expression(Truth value) : Expression(truth(value)) {}
  Expression(const Scalar& scalar);
  /// Throws Error(invalid_argument) of null.
  explicit Expression(std::shared_ptr<const score::ExpressionNode> node);
  // No moves, as above.
  Expression(const Expression&) = default;
  Expression& operator=(const Expression&) = default;
  const std::shared_ptr<const score::ExpressionNode>& node() const noexcept { return node_; }
  /// As parse_mask() and parse_score() read it.
  std::string text() const;

 private:
  static Expression truth(bool value);
  template <class Integer> static constexpr bool fits(Integer value) {
    const int narrow = static_cast<int>(value);
    return static_cast<Integer>(narrow) == value && (narrow < 0) == (value < 0);
  }
  static int held(bool fits, int value);
  std::shared_ptr<const score::ExpressionNode> node_;
};

Expression operator+(const Expression& a, const Expression& b);
Expression operator-(const Expression& a, const Expression& b);
Expression operator*(const Expression& a, const Expression& b);
/// Of reals; integers are made reals first. Towards minus infinity, see floor_div.
Expression operator/(const Expression& a, const Expression& b);
/// Remainder of floor_div, with the divisor's sign.
Expression operator%(const Expression& a, const Expression& b);
Expression operator-(const Expression& a);
Expression operator<(const Expression& a, const Expression& b);
Expression operator<=(const Expression& a, const Expression& b);
Expression operator>(const Expression& a, const Expression& b);
Expression operator>=(const Expression& a, const Expression& b);
Expression operator==(const Expression& a, const Expression& b);
Expression operator!=(const Expression& a, const Expression& b);
Expression operator&&(const Expression& a, const Expression& b);
Expression operator||(const Expression& a, const Expression& b);
Expression operator!(const Expression& a);
Expression operator&(const Expression& a, const Expression& b);
Expression operator|(const Expression& a, const Expression& b);
Expression operator^(const Expression& a, const Expression& b);
/// Times 2^b, saturated; b is held within 0 .. 31.
Expression operator<<(const Expression& a, const Expression& b);
/// Divided by 2^b towards minus infinity; b is held within 0 .. 31.
Expression operator>>(const Expression& a, const Expression& b);

/// Of integers, towards minus infinity; by 0 it is 0. A divisor that is always 0 is refused by
/// mask() and change(), a scalar that is 0 by plan().
Expression floor_div(const Expression& a, const Expression& b);
Expression min(const Expression& a, const Expression& b);
Expression max(const Expression& a, const Expression& b);
Expression abs(const Expression& a);
/// Bit `at` of an integer, 0 the lowest; false below 0 and from 32 on.
Expression bit(const Expression& word, const Expression& at);
/// `a` where the condition holds, else `b`.
Expression select(const Expression& condition, const Expression& a, const Expression& b);
Expression exp(const Expression& a);
Expression log(const Expression& a);
Expression tanh(const Expression& a);
/// 1 / (1 + exp(-a))
Expression sigmoid(const Expression& a);
/// The largest integer that is not above a real; NaN gives 0.
Expression floor(const Expression& a);
/// An integer as a real.
Expression real(const Expression& a);

namespace score {
enum class Symbol {
  query,
  key,
  offset,
  score,
  batch,
  query_head,
  kv_head,
  query_length,
  key_length
};
Expression symbol(Symbol which);
}  // namespace score

namespace symbols {
inline const Expression q = score::symbol(score::Symbol::query);     ///< position of the query
inline const Expression k = score::symbol(score::Symbol::key);       ///< position of the key
inline const Expression off = score::symbol(score::Symbol::offset);  ///< Place::offset: Sk - Sq
/// The score; in score changes only.
inline const Expression s = score::symbol(score::Symbol::score);
/// Sequence within the batch.
inline const Expression batch = score::symbol(score::Symbol::batch);
inline const Expression head = score::symbol(score::Symbol::query_head);
inline const Expression kv_head = score::symbol(score::Symbol::kv_head);
/// Sq and Sk of the sequence.
inline const Expression query_length = score::symbol(score::Symbol::query_length);
inline const Expression key_length = score::symbol(score::Symbol::key_length);
}  // namespace symbols

/// The expression, a truth without the score, as a mask. Throws Error(invalid_argument) for another
/// kind, and for formulas of more than 1024 operations, 16 scalars or 8 side tensors.
Mask mask(const Expression& keep);
/// The expression, a number, as a score change. Minus infinity hides the key.
ScoreChange change(const Expression& score);

/// What a text may name besides the symbols.
struct Names {
  std::vector<SideTensor> tensors{};
  std::vector<Scalar> scalars{};
};
/// Throws Error(invalid_argument) whose message shows the text and points at what is wrong.
Expression parse_expression(std::string_view text, const Names& names = {});
Mask parse_mask(std::string_view text, const Names& names = {});
ScoreChange parse_score(std::string_view text, const Names& names = {});

}  // namespace tilefold
