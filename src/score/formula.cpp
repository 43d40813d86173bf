// Built-in formulas and the composition of formulas at run time.
#include "tilefold/formula.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "score/nodes.hpp"
#include "tilefold/error.hpp"

namespace tilefold {

namespace score {

bool all_alike(const unsigned char* flags, int queries, int keys, int row) {
  for (int c = 0; c < keys; ++c)
    for (int r = 0; r < queries; ++r)
      if (flags[std::ptrdiff_t(c) * row + r] != flags[0]) return false;
  return true;
}

void MaskNode::name_blunt_terms(const TilePositions& tile, const NameTerm& name) const {
  if (!classify(queries_of(tile), keys_of(tile), tile.place).maybe()) return;
  std::array<unsigned char, max_tile_queries * max_tile_keys> flags;
  keep(tile, flags.data(), max_tile_queries);
  if (all_alike(flags.data(), tile.queries, tile.keys, max_tile_queries)) name(text());
}

namespace {

using NodePointer = std::shared_ptr<const MaskNode>;
using Flags = std::array<unsigned char, max_tile_queries * max_tile_keys>;

// A mask that keeps everything, for compositions with the default Mask.
NodePointer everything() {
  static const NodePointer node =
      std::make_shared<FunctorMask<Everything, Reading::tiles>>(Everything{}, "all");
  return node;
}

enum class Join { both, either };

class JoinedMask final : public MaskNode {
 public:
  JoinedMask(NodePointer a, NodePointer b, Join join)
      : a_(std::move(a)), b_(std::move(b)), join_(join) {}

  void keep(const TilePositions& tile, unsigned char* flags, int row) const override {
    Flags other;
    a_->keep(tile, flags, row);
    b_->keep(tile, other.data(), tile.queries);
    for (int c = 0; c < tile.keys; ++c) {
      unsigned char* left = flags + std::ptrdiff_t(c) * row;
      const unsigned char* right = other.data() + c * tile.queries;
      if (join_ == Join::both)
        for (int r = 0; r < tile.queries; ++r) left[r] &= right[r];
      else
        for (int r = 0; r < tile.queries; ++r) left[r] |= right[r];
    }
  }
  Truth classify(Interval queries, Interval keys, const Place& place) const override {
    const Truth a = a_->classify(queries, keys, place);
    // The second is not asked where the first decides.
    if (join_ == Join::both ? a.no() : a.yes()) return a;
    const Truth b = b_->classify(queries, keys, place);
    return join_ == Join::both ? a && b : a || b;
  }
  std::string text() const override {
    const char* sign = join_ == Join::both ? " && " : " || ";
    return wrapped(*a_) + sign + wrapped(*b_);
  }
  MaskDescription describe() const override {
    using Kind = MaskDescription::Kind;
    return {.kind = join_ == Join::both ? Kind::both : Kind::either,
            .first = a_.get(),
            .second = b_.get()};
  }
  void require_fit(const Extent& extent) const override {
    a_->require_fit(extent);
    b_->require_fit(extent);
  }
  unsigned revision() const override { return a_->revision() + b_->revision(); }
  void each_side_tensor(const VisitSideTensor& visit) const override {
    a_->each_side_tensor(visit);
    b_->each_side_tensor(visit);
  }
  void name_blunt_terms(const TilePositions& tile, const NameTerm& name) const override {
    a_->name_blunt_terms(tile, name);
    b_->name_blunt_terms(tile, name);
  }
  const TensorView* device_tensor() const override {
    const TensorView* first = a_->device_tensor();
    return first != nullptr ? first : b_->device_tensor();
  }

 private:
  // Parentheses around the other kind of join only.
  std::string wrapped(const MaskNode& node) const {
    const auto* joined = dynamic_cast<const JoinedMask*>(&node);
    return joined && joined->join_ != join_ ? "(" + node.text() + ")" : node.text();
  }
  NodePointer a_, b_;
  Join join_;
};

class NegatedMask final : public MaskNode {
 public:
  explicit NegatedMask(NodePointer a) : a_(std::move(a)) {}
  void keep(const TilePositions& tile, unsigned char* flags, int row) const override {
    a_->keep(tile, flags, row);
    for (int c = 0; c < tile.keys; ++c)
      for (int r = 0; r < tile.queries; ++r) flags[std::ptrdiff_t(c) * row + r] ^= 1;
  }
  Truth classify(Interval queries, Interval keys, const Place& place) const override {
    return !a_->classify(queries, keys, place);
  }
  std::string text() const override { return "!(" + a_->text() + ")"; }
  MaskDescription describe() const override {
    return {.kind = MaskDescription::Kind::negated, .first = a_.get()};
  }
  void require_fit(const Extent& extent) const override { a_->require_fit(extent); }
  unsigned revision() const override { return a_->revision(); }
  void each_side_tensor(const VisitSideTensor& visit) const override {
    a_->each_side_tensor(visit);
  }
  void name_blunt_terms(const TilePositions& tile, const NameTerm& name) const override {
    a_->name_blunt_terms(tile, name);
  }
  const TensorView* device_tensor() const override { return a_->device_tensor(); }

 private:
  NodePointer a_;
};

// A mask over a side tensor: owns the block bounds, and the values where they were copied.
template <class Functor> class TableMask final : public MaskNode {
 public:
  struct Table {
    std::vector<int> copied, low, high;
    Lookup lookup{};
  };
  TableMask(Table table, int sequences, std::string text)
      : table_(std::move(table)),
        sequences_(sequences),
        inner_(reading(table_.lookup), std::move(text)) {}
  // The moved vectors keep their heap blocks, so the pointers in `lookup` stay right.
  void keep(const TilePositions& tile, unsigned char* flags, int row) const override {
    inner_.keep(tile, flags, row);
  }
  Truth classify(Interval queries, Interval keys, const Place& place) const override {
    return inner_.classify(queries, keys, place);
  }
  std::string text() const override { return inner_.text(); }
  MaskDescription describe() const override {
    using Kind = MaskDescription::Kind;
    return {.kind = std::is_same_v<Functor, Document> ? Kind::document : Kind::prefix,
            .lookup = &table_.lookup,
            .sequences = sequences_};
  }
  void require_fit(const Extent& extent) const override {
    if (sequences_ != 1 && sequences_ < extent.sequences)
      throw Error(ErrorCode::shape_mismatch,
                  inner_.text() + " has entries for " + std::to_string(sequences_) +
                      " sequences: the batch has " + std::to_string(extent.sequences));
    if (std::is_same_v<Functor, Document> && table_.lookup.positions < extent.key_positions)
      throw Error(ErrorCode::shape_mismatch, inner_.text() + " has " +
                                                 std::to_string(table_.lookup.positions) +
                                                 " entries a sequence: key positions reach " +
                                                 std::to_string(extent.key_positions));
  }

 private:
  static Functor reading(const Lookup& lookup) { return Functor{lookup}; }
  Table table_;
  int sequences_;
  FunctorMask<Functor, Reading::tiles> inner_;
};

// A score change over a side tensor [.., heads] or [B, H, Sq, Sk].
template <class Functor> class TensorChange final : public ScoreNode {
 public:
  TensorChange(Functor functor, TensorView tensor, std::string text)
      : tensor_(std::move(tensor)), inner_(functor, std::move(text)) {}
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
    using Kind = ScoreDescription::Kind;
    return {.kind = std::is_same_v<Functor, Alibi> ? Kind::alibi : Kind::bias, .tensor = &tensor_};
  }
  void require_fit(const Extent& extent) const override {
    // Axes from the last: heads; or batch, heads, queries, keys. An extent of 1 broadcasts all of a
    // bias's axes but none of the slopes' heads.
    const int rank = tensor_.rank();
    const bool bias = rank == 4;
    const auto fits = [&](int axis, std::int64_t needed) {
      return tensor_.dim(axis) >= needed || (tensor_.dim(axis) == 1 && (bias || axis < rank - 1));
    };
    const bool heads_fit = fits(bias ? 1 : rank - 1, extent.query_heads);
    const bool batch_fits = rank == 1 || fits(0, extent.sequences);
    const bool plane_fits =
        !bias || (fits(2, extent.query_positions) && tensor_.dim(3) >= extent.key_positions);
    if (!heads_fit || !batch_fits || !plane_fits)
      throw Error(ErrorCode::shape_mismatch,
                  text() + " reads " + tensor_.to_string() + ": the problem has " +
                      std::to_string(extent.sequences) + " sequences, " +
                      std::to_string(extent.query_heads) + " query heads and positions up to " +
                      std::to_string(extent.query_positions) + " (queries) and " +
                      std::to_string(extent.key_positions) + " (keys)");
  }

 private:
  TensorView tensor_;
  FunctorChange<Functor> inner_;
};

void bound_blocks(Lookup& lookup, int sequences, std::vector<int>& low, std::vector<int>& high) {
  const int blocks = (lookup.positions + Lookup::block - 1) / Lookup::block;
  for (int s = 0; s < sequences; ++s)
    for (int b = 0; b < blocks; ++b) {
      const int* values = lookup.values + s * lookup.batch_stride;
      const int first = b * Lookup::block, last = smaller(first + Lookup::block, lookup.positions);
      Interval bound(values[first]);
      for (int i = first + 1; i < last; ++i)
        bound = {smaller(bound.low, values[i]), larger(bound.high, values[i])};
      low.push_back(bound.low);
      high.push_back(bound.high);
    }
  lookup.low = low.data();
  lookup.high = high.data();
}

}  // namespace

ChainedChange::ChainedChange(Pointer first, Pointer second)
    : first_(std::move(first)), second_(std::move(second)) {}
void ChainedChange::change(const TilePositions& tile, float* scores, int row) const {
  first_->change(tile, scores, row);
  second_->change(tile, scores, row);
}
void ChainedChange::change(const TilePositions& tile, double* scores, int row) const {
  first_->change(tile, scores, row);
  second_->change(tile, scores, row);
}
void ChainedChange::differentiate(const TilePositions& tile, double* scores, double* slopes,
                                  int row) const {
  first_->differentiate(tile, scores, slopes, row);
  second_->differentiate(tile, scores, slopes, row);
}
std::string ChainedChange::text() const { return first_->text() + " then " + second_->text(); }
void ChainedChange::require_fit(const Extent& extent) const {
  first_->require_fit(extent);
  second_->require_fit(extent);
}
unsigned ChainedChange::revision() const { return first_->revision() + second_->revision(); }
const TensorView* ChainedChange::device_tensor() const {
  const TensorView* first = first_->device_tensor();
  return first != nullptr ? first : second_->device_tensor();
}
ScoreDescription ChainedChange::describe() const {
  return {.kind = ScoreDescription::Kind::chain, .first = first_.get(), .second = second_.get()};
}

}  // namespace score

namespace {

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

void require_side_tensor(const TensorView& tensor, const char* name, DType dtype, int low,
                         int high) {
  if (!tensor.present()) throw Error(ErrorCode::missing_argument, std::string(name) + " is absent");
  if (tensor.dtype() != dtype)
    throw Error(ErrorCode::dtype_mismatch, std::string(name) + " is " + tensor.to_string() +
                                               ": it must be " + tilefold::name(dtype));
  if (tensor.rank() < low || tensor.rank() > high)
    throw Error(ErrorCode::shape_mismatch,
                std::string(name) + " is " + tensor.to_string() + ": it must have " +
                    std::to_string(low) +
                    (high > low ? " to " + std::to_string(high) : std::string()) + " axes");
  if (tensor.device() != Device::cpu())
    throw Error(
        ErrorCode::device_mismatch,
        std::string(name) + " is on " + to_string(tensor.device()) + ": it must be on the host");
  if (tensor.dim(tensor.rank() - 1) > 1 && tensor.stride(tensor.rank() - 1) != 1)
    throw Error(ErrorCode::stride_unsupported, std::string(name) + " is " + tensor.to_string() +
                                                   ": its last axis must be contiguous");
  if (tensor.empty() || tensor.data() == nullptr)
    throw Error(ErrorCode::missing_argument, std::string(name) + " holds no entries");
}

int sequences_of(const TensorView& values) { return values.rank() == 2 ? int(values.dim(0)) : 1; }

/// [positions] or [B, positions], without bounds.
score::Lookup lookup_over(const TensorView& values, const char* name) {
  require_side_tensor(values, name, DType::i32, 1, 2);
  const std::int64_t positions = values.dim(values.rank() - 1);
  if (positions > INT32_MAX)
    throw Error(ErrorCode::shape_mismatch, std::string(name) + " are " + values.to_string() +
                                               ": at most 2^31 - 1 positions are supported");
  // A row shared by all sequences has stride 0; [1, n] is such a row too.
  return {values.as<std::int32_t>(), nullptr, nullptr,
          sequences_of(values) > 1 ? values.stride(0) : 0, int(positions)};
}

template <class M> Mask built_in(M functor, std::string text) {
  return Mask(std::make_shared<score::FunctorMask<M, Reading::tiles>>(functor, std::move(text)));
}

}  // namespace

std::string Mask::text() const { return node_ ? node_->text() : "all"; }
std::string ScoreChange::text() const { return node_ ? node_->text() : "none"; }

Mask operator&&(const Mask& a, const Mask& b) {
  if (!a.node_) return b;
  if (!b.node_) return a;
  return Mask(std::make_shared<score::JoinedMask>(a.node_, b.node_, score::Join::both));
}
Mask operator||(const Mask& a, const Mask& b) {
  if (!a.node_ || !b.node_) return Mask();
  return Mask(std::make_shared<score::JoinedMask>(a.node_, b.node_, score::Join::either));
}
Mask operator!(const Mask& a) {
  return Mask(std::make_shared<score::NegatedMask>(a.node_ ? a.node_ : score::everything()));
}

ScoreChange ScoreChange::then(const ScoreChange& next) const {
  if (!node_) return next;
  if (!next.node_) return *this;
  return ScoreChange(std::make_shared<score::ChainedChange>(node_, next.node_));
}

Mask causal() { return built_in(score::Causal{}, "causal"); }

Mask window(int left, int right) {
  return built_in(score::Window{left, right},
                  "window(" + std::to_string(left) + ", " + std::to_string(right) + ")");
}

Mask prefix(int length) {
  if (length < 0)
    throw Error(ErrorCode::invalid_argument,
                "prefix length is " + std::to_string(length) + ": it must be 0 or more");
  using Node = score::TableMask<score::Prefix>;
  Node::Table table;
  table.copied = {length};
  table.lookup = {table.copied.data(), nullptr, nullptr, 0, 1};
  score::bound_blocks(table.lookup, 1, table.low, table.high);
  return Mask(
      std::make_shared<Node>(std::move(table), 1, "prefix(" + std::to_string(length) + ")"));
}

Mask prefix(const TensorView& lengths) {
  require_side_tensor(lengths, "prefix lengths", DType::i32, 1, 1);
  using Node = score::TableMask<score::Prefix>;
  Node::Table table;
  const int sequences = int(lengths.dim(0));
  table.copied.assign(lengths.as<std::int32_t>(), lengths.as<std::int32_t>() + sequences);
  table.lookup = {table.copied.data(), nullptr, nullptr, 1, 1};
  score::bound_blocks(table.lookup, sequences, table.low, table.high);
  return Mask(std::make_shared<Node>(std::move(table), sequences, "prefix(lengths)"));
}

Mask documents(const TensorView& ids) {
  using Node = score::TableMask<score::Document>;
  Node::Table table;
  table.lookup = lookup_over(ids, "document ids");
  const int sequences = sequences_of(ids);
  score::bound_blocks(table.lookup, sequences, table.low, table.high);
  return Mask(std::make_shared<Node>(std::move(table), sequences, "documents(ids)"));
}

LookupTable::LookupTable(const TensorView& values) : lookup_(lookup_over(values, "values")) {
  score::bound_blocks(lookup_, sequences_of(values), low_, high_);
}

ScoreChange softcap(double cap) {
  if (!(cap > 0) || std::isinf(cap))
    throw Error(
        ErrorCode::invalid_argument,
        "softcap is " + number(cap) + ": it must be positive and finite; leave it out for none");
  return ScoreChange(
      std::make_shared<score::SoftCapNode>(score::SoftCap{cap}, "softcap(" + number(cap) + ")"));
}

ScoreChange alibi(const TensorView& slopes) {
  require_side_tensor(slopes, "ALiBi slopes", DType::f32, 1, 2);
  const score::Alibi functor{slopes.as<float>(), slopes.rank() == 2 ? slopes.stride(0) : 0};
  return ScoreChange(
      std::make_shared<score::TensorChange<score::Alibi>>(functor, slopes, "alibi(slopes)"));
}

ScoreChange additive_bias(const TensorView& bias) {
  require_side_tensor(bias, "bias", DType::f32, 4, 4);
  const score::AdditiveBias functor{bias.as<float>(), bias.stride(0), bias.stride(1),
                                    bias.stride(2)};
  return ScoreChange(std::make_shared<score::TensorChange<score::AdditiveBias>>(
      functor, bias, "additive_bias(bias)"));
}

void alibi_slopes(int heads, float* slopes) {
  // A power of two n: 2^(-8 (h + 1) / n). Otherwise those of the next lower power of two, then
  // every other slope of twice as many.
  int power = 1;
  while (2 * power <= heads) power *= 2;
  for (int h = 0; h < heads; ++h)
    slopes[h] = h < power ? float(std::exp2(-8.0 * (h + 1) / power))
                          : float(std::exp2(-4.0 * (2 * (h - power) + 1) / power));
}

}  // namespace tilefold
