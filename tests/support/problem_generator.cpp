// Draws a problem in the order: types, sizes, lengths, formula, tensors, outputs.
#include "support/problem_generator.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/random.hpp"
#include "support/random_formula.hpp"

namespace tilefold::testing {

namespace {

enum class Values { normal, huge };

/// Lengths, places and pages of one sequence.
struct Sequence {
  int query_length = 0, key_length = 0;
  int query_rows = 0, key_rows = 0;  // rows that its dense slice has
  std::int64_t query_begin = 0, key_begin = 0;
  std::int64_t query_start = 0, key_start = 0, offset = 0;
  int first_visible = 0, last_visible = 0;  // keys outside are hidden from every query
  std::vector<int> pages;
};

class Builder {
 public:
  Builder(std::uint64_t seed, const GeneratorLimits& limits)
      : random_(seed * 0x2545f4914f6cdd1dULL + 1), limits_(limits) {
    drawn_.seed = seed;
    if (limits.demand)
      drawn_.lengths_on_device = limits.demand->features.has(Feature::device_lengths);
  }
  RandomProblem build() {
    draw_types();
    draw_sizes();
    draw_lengths();
    draw_positions();
    draw_formula();
    build_query();
    build_keys();
    build_score_tensors();
    inject_nan();
    build_outputs();
    return std::move(drawn_);
  }

 private:
  void draw_types();
  void draw_sizes();
  void draw_lengths();
  void shrink_to_budget();
  void draw_positions();
  void draw_formula();
  void build_query();
  void build_keys();
  void build_dense_keys();
  void build_ragged_keys();
  void build_paged_keys();
  void draw_pages();
  void build_page_tables();
  void build_score_tensors();
  void build_bias();
  void build_key_descales();
  void build_outputs();
  void inject_nan();

  Tensors& tensors() { return drawn_.problem.tensors; }
  Options& options() { return drawn_.problem.options; }
  Sequence& at(int b) { return sequences_[std::size_t(b)]; }
  template <class... Arguments>
  void note(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    drawn_.notes.push_back(fmt::format(text, std::forward<Arguments>(arguments)...));
  }
  int longest(int Sequence::*length) const {
    int n = 0;
    for (const Sequence& s : sequences_) n = std::max(n, s.*length);
    return n;
  }
  MemoryLayout layout(int rank, bool may_permute = true);
  /// Of query, keys and values: rows on 16 bytes where the family wants them.
  MemoryLayout input_layout(int rank);
  OutputView index_tensor(const std::vector<std::int64_t>& values, bool may_be_int64 = true);
  void fill_row(const OutputView& tensor, std::int64_t offset, int columns);
  bool hidden_from_all(int b, int first_key, int last_key);
  void find_visible_ends(Sequence& s, int b);
  struct KeyPlace {
    std::int64_t offset, head_stride;
  };
  /// Writes the keys and values of one position, all heads.
  void write_key(int b, int j, const KeyPlace& key, const KeyPlace& value);
  Descale descale(DType stored, const Extents& token_shape, int heads, Granularity per);

  /// What is demanded, or what was drawn where nothing is.
  bool has(Feature feature, bool drawn) const {
    return limits_.demand ? limits_.demand->features.has(feature) : drawn;
  }
  bool for_family() const { return limits_.family.has_value(); }
  /// Fits what was drawn to what the family takes.
  void family_types();
  void family_sizes();
  /// Fits a plain problem's types, sizes and lengths to the demand.
  void demand_types();
  void demand_sizes();
  void demand_lengths();

  Random random_;
  GeneratorLimits limits_;
  RandomProblem drawn_;
  std::vector<Sequence> sequences_;
  DType query_type_{}, cache_type_{}, value_type_{};
  int kv_heads_ = 1, heads_ = 1, head_dim_ = 1, value_dim_ = 1, page_size_ = 0, pages_ = 0;
  bool ragged_query_ = false, view_of_key_ = false;
  enum class Keys { dense, ragged, paged } keys_ = Keys::dense;
  Values values_ = Values::normal;
  double query_size_ = 1, key_size_ = 1;
  OutputView query_, key_, value_;
};

void Builder::draw_types() {
  query_type_ = random_.one_of({DType::f64, DType::f32, DType::f32, DType::f16, DType::bf16,
                                DType::bf16, DType::e4m3, DType::e5m2});
  if (limits_.query_dtype) query_type_ = *limits_.query_dtype;
  cache_type_ = query_type_;
  const bool half = query_type_ == DType::f16 || query_type_ == DType::bf16;
  if (half && random_.chance(0.4)) cache_type_ = random_.one_of({DType::e4m3, DType::e5m2});
  value_type_ = is_fp8(cache_type_) && random_.chance(0.2)
                    ? random_.one_of({DType::e4m3, DType::e5m2})
                    : cache_type_;
  values_ = random_.chance(0.06) ? Values::huge : Values::normal;
  query_size_ = random_.one_of({0.2, 1.0, 1.0, 2.5});
  key_size_ = random_.one_of({0.2, 1.0, 1.0, 2.5});
  if (limits_.demand) demand_types();
  if (for_family()) family_types();
}

void Builder::family_types() {
  query_type_ = cache_type_ = value_type_ = random_.one_of({DType::f16, DType::bf16});
}

void Builder::demand_types() {
  const Demand& d = *limits_.demand;
  query_type_ = d.query_dtype.value_or(random_.one_of({DType::f16, DType::bf16}));
  cache_type_ = value_type_ = d.cache_dtype.value_or(query_type_);
  values_ = d.features.has(Feature::huge_values) ? Values::huge : Values::normal;
  query_size_ = key_size_ = 1;
}

int draw_head_dim(Random& random, int limit) {
  const double kind = random.uniform();
  int dim = kind < 0.45   ? random.between(1, 20)
            : kind < 0.88 ? random.one_of({32, 64, 80, 96, 128, 192, 256, 576})
                          : random.between(1, 1024);
  if (kind >= 0.88 && kind < 0.97) dim = random.between(1, 200);
  return std::min(dim, limit);
}

void Builder::draw_sizes() {
  kv_heads_ = random_.one_of({1, 1, 1, 2, 2, 3, 4, 5, 8});
  heads_ = kv_heads_ * random_.one_of({1, 1, 1, 2, 3, 4, 6, 8, 16});
  head_dim_ = draw_head_dim(random_, values_ == Values::huge ? 64 : limits_.head_dim);
  value_dim_ = random_.chance(0.6) ? head_dim_ : draw_head_dim(random_, limits_.head_dim);
  view_of_key_ = random_.chance(0.12);
  if (view_of_key_) value_dim_ = random_.between(std::max(1, head_dim_ / 2), head_dim_);
  const double kind = random_.uniform();
  keys_ = kind < 0.35 ? Keys::dense : kind < 0.6 ? Keys::ragged : Keys::paged;
  ragged_query_ = keys_ == Keys::ragged || (keys_ == Keys::paged && random_.chance(0.6));
  if (keys_ == Keys::paged)
    page_size_ = random_.chance(0.3) ? random_.between(1, 192)
                                     : random_.one_of({1, 2, 4, 5, 8, 16, 16, 32, 64, 128, 192});
  if (limits_.demand) demand_sizes();
  if (for_family()) family_sizes();
}

/// A multiple of 8; every other one fills a tile's columns.
int draw_family_dim(Random& random, int limit) {
  const int dim = random.chance(0.5) ? random.one_of({64, 96, 128, 192, 256})
                                     : 8 * random.between(1, limit / 8);
  return std::min(dim, limit);
}

void Builder::family_sizes() {
  head_dim_ = draw_family_dim(random_, values_ == Values::huge ? 64 : 256);
  value_dim_ = random_.chance(0.6) ? head_dim_ : draw_family_dim(random_, 256);
  if (view_of_key_) value_dim_ = 8 * random_.between((head_dim_ + 15) / 16, head_dim_ / 8);
  const double kind = random_.uniform();
  const bool pages = limits_.family == KernelFamily::sm80 && kind < 0.3;
  keys_ = pages ? Keys::paged : kind < 0.65 ? Keys::dense : Keys::ragged;
  ragged_query_ = keys_ == Keys::ragged || random_.chance(pages ? 0.6 : 0.2);
  page_size_ = pages ? random_.one_of({1, 5, 8, 16, 16, 32, 64, 128, 192}) : 0;
}

void Builder::demand_sizes() {
  const Demand& d = *limits_.demand;
  const bool one_row = d.features.has(Feature::one_long_row);
  kv_heads_ = one_row ? 1 : random_.one_of({1, 2, 3});
  heads_ = kv_heads_ * (d.features.has(Feature::grouped_heads) ? random_.one_of({2, 4, 8}) : 1);
  head_dim_ = d.head_dim.value_or(random_.one_of({64, 128}));
  value_dim_ = d.value_dim.value_or(head_dim_);
  view_of_key_ = d.features.has(Feature::view_of_key);
  keys_ = d.keys == KeyForm::paged    ? Keys::paged
          : d.keys == KeyForm::ragged ? Keys::ragged
                                      : Keys::dense;
  ragged_query_ = keys_ == Keys::ragged || d.features.has(Feature::ragged_query);
  page_size_ = keys_ == Keys::paged ? d.page_size.value_or(random_.one_of({16, 64})) : 0;
}

int draw_length(Random& random, int limit) {
  const double kind = random.uniform();
  const int length = kind < 0.05   ? 0
                     : kind < 0.35 ? 1
                     : kind < 0.7  ? random.between(2, 20)
                     : kind < 0.9  ? random.between(2, 200)
                                   : random.between(100, 6000);
  return std::min(length, limit);
}

/// As draw_length, and every fourth beside a border of tiles.
int draw_family_length(Random& random, int limit) {
  if (!random.chance(0.25)) return draw_length(random, limit);
  const int border = random.one_of({16, 64, 80, 96, 112, 128, 128, 192, 256, 384, 512});
  return std::min(border + random.between(-1, 1), limit);
}

void Builder::shrink_to_budget() {
  const auto work = [&] {
    double sum = 0;
    for (const Sequence& s : sequences_)
      sum += double(heads_) * s.query_length * s.key_length * (head_dim_ + value_dim_ + 40);
    return sum;
  };
  while (work() > limits_.work) {
    Sequence& s = *std::max_element(sequences_.begin(), sequences_.end(), [](auto& a, auto& b) {
      return double(a.query_length) * a.key_length < double(b.query_length) * b.key_length;
    });
    if (s.query_length > 1 && (s.query_length > s.key_length / 8 || random_.chance(0.4)))
      s.query_length = (s.query_length + 1) / 2;
    else if (s.key_length > 1)
      s.key_length = (s.key_length * 3 + 2) / 4;
    if (s.query_length <= 1 && s.key_length <= 2) break;
  }
}

void Builder::demand_lengths() {
  const Features& f = limits_.demand->features;
  const bool one_row = f.has(Feature::one_long_row), uneven = f.has(Feature::uneven_lengths);
  sequences_.resize(one_row ? 1 : std::size_t(random_.between(uneven ? 2 : 1, 3)));
  for (Sequence& s : sequences_) {
    const bool first = &s == &sequences_[0];
    s.query_length = first || uneven ? random_.between(1, 90) : sequences_[0].query_length;
    s.key_length =
        first || uneven ? s.query_length + random_.between(0, 200) : sequences_[0].key_length;
    if (f.has(Feature::fewer_keys_than_queries)) std::swap(s.query_length, s.key_length);
    if (f.has(Feature::few_rows))
      s.query_length = first ? random_.between(1, 3) : sequences_[0].query_length;
    if (one_row) s.query_length = 1, s.key_length = random_.between(5000, 6000);
  }
  if (f.has(Feature::empty_sequences)) {
    sequences_[0].key_length = 0;
    sequences_.back().query_length = 0;
  }
}

void Builder::draw_lengths() {
  const int batch = random_.chance(0.01) ? 0 : random_.between(1, limits_.batch);
  sequences_.resize(std::size_t(batch));
  for (Sequence& s : sequences_) {
    const auto draw = for_family() ? draw_family_length : draw_length;
    s.query_length = draw(random_, limits_.query_length);
    s.key_length = draw(random_, limits_.key_length);
    if (random_.chance(0.3)) s.key_length = std::max(s.key_length, s.query_length);
    if (random_.chance(0.15)) s.key_length = s.query_length;
  }
  shrink_to_budget();
  const bool equal_queries = random_.chance(0.5), equal_keys = random_.chance(0.5);
  for (Sequence& s : sequences_) {
    if (!ragged_query_ && equal_queries) s.query_length = sequences_[0].query_length;
    if (keys_ == Keys::dense && equal_keys) s.key_length = sequences_[0].key_length;
  }
  shrink_to_budget();
  if (limits_.demand) demand_lengths();
  const int more_queries =
      has(Feature::query_lengths, random_.chance(0.2)) ? random_.between(0, 3) : 0;
  const int more_keys = has(Feature::key_lengths, random_.chance(0.2)) ? random_.between(0, 9) : 0;
  const int dense_queries = longest(&Sequence::query_length) + more_queries;
  const int dense_keys = longest(&Sequence::key_length) + more_keys;
  std::int64_t query_begin = 0, key_begin = 0;
  for (Sequence& s : sequences_) {
    s.query_rows = dense_queries;
    s.key_rows = dense_keys;
    if (ragged_query_) s.query_begin = query_begin, query_begin += s.query_length;
    if (keys_ == Keys::ragged) s.key_begin = key_begin, key_begin += s.key_length;
    s.offset = s.key_length - s.query_length;
  }
  note("B {} Hq {} Hkv {} Dqk {} Dv {}", batch, heads_, kv_heads_, head_dim_, value_dim_);
  for (const Sequence& s : sequences_) note("  Sq {} Sk {}", s.query_length, s.key_length);
}

void Builder::draw_positions() {
  if (!has(Feature::positions, random_.chance(0.15)) || sequences_.empty()) return;
  Positions positions;
  if (has(Feature::striped, random_.chance(0.5))) {  // a striped shard of `world` ranks
    const int world = random_.between(2, 4);
    positions.query = {random_.between(0, world - 1), world};
    positions.key = {random_.between(0, world - 1), world};
  } else {
    positions.query = {random_.between(0, 40), 1};
    positions.key = {random_.between(0, 20), 1};
  }
  positions.offset = random_.chance(0.5) ? 0 : random_.between(-5, 30);
  options().positions = positions;
  std::vector<std::int64_t> query_starts, key_starts;
  for (Sequence& s : sequences_) {
    query_starts.push_back(random_.between(0, 10));
    key_starts.push_back(random_.between(0, 10));
    s.offset = positions.offset;
    s.query_start = positions.query.start;
    s.key_start = positions.key.start;
  }
  if (has(Feature::starts, random_.chance(0.3))) {
    tensors().query_starts = index_tensor(query_starts);
    for (std::size_t b = 0; b < sequences_.size(); ++b)
      sequences_[b].query_start += query_starts[b];
  }
  if (has(Feature::starts, random_.chance(0.3))) {
    tensors().key_starts = index_tensor(key_starts);
    for (std::size_t b = 0; b < sequences_.size(); ++b) sequences_[b].key_start += key_starts[b];
  }
  note("positions: query {} + {} i, key {} + {} j, offset {}, starts {} {}", positions.query.start,
       positions.query.stride, positions.key.start, positions.key.stride, positions.offset,
       bool(tensors().query_starts), bool(tensors().key_starts));
}

void Builder::draw_formula() {
  FormulaExtent extent;
  extent.sequences = int(sequences_.size());
  extent.query_heads = heads_;
  extent.query_rows =
      ragged_query_ || sequences_.empty() ? longest(&Sequence::query_length) : at(0).query_rows;
  extent.key_rows =
      keys_ == Keys::dense && !sequences_.empty() ? at(0).key_rows : longest(&Sequence::key_length);
  extent.positions_are_indices = !options().positions;
  extent.parts = for_family() ? FormulaParts::built_ins : limits_.formulas;
  const std::int64_t stride = options().positions ? options().positions->key.stride : 1;
  const std::int64_t query_stride = options().positions ? options().positions->query.stride : 1;
  for (const Sequence& s : sequences_)
    extent.key_positions = std::max(
        extent.key_positions, int(s.key_start + stride * std::max(s.key_length, s.key_rows)) + 1);
  for (const Sequence& s : sequences_)
    extent.query_positions =
        std::max(extent.query_positions, int(s.query_start + query_stride * s.query_length) + 1);
  if (sequences_.empty()) return;
  if (limits_.demand) {
    options().mask = mask_of_form(limits_.demand->mask, random_, extent, drawn_);
    options().score = change_of_form(limits_.demand->score, random_, extent, drawn_);
    note("mask {}, score {}", options().mask.text(), options().score.text());
    return;
  }
  options().mask = random_mask(random_, extent, drawn_);
  note("mask {}", options().mask.text());
  if (random_.chance(0.2) && values_ == Values::normal) {
    options().score = random_score_change(random_, extent, drawn_);
    note("score {}", options().score.text());
  }
}

MemoryLayout Builder::layout(int rank, bool may_permute) {
  MemoryLayout layout;
  if (limits_.demand) {
    if (has(Feature::padded_rows, false)) layout.padding = 16 * random_.between(1, 3);
    if (has(Feature::odd_strides, false))
      layout.padding = 2 * random_.between(0, 4) + 1, layout.offset = 2 * random_.between(0, 4) + 1;
    return layout;
  }
  if (random_.chance(0.5)) return layout;
  if (may_permute && rank >= 3 && random_.chance(0.5)) {
    layout.order.resize(std::size_t(rank));
    std::iota(layout.order.begin(), layout.order.end(), 0);
    std::swap(layout.order[std::size_t(rank) - 2], layout.order[std::size_t(rank) - 3]);
    if (rank == 4 && random_.chance(0.3)) std::swap(layout.order[0], layout.order[1]);
  }
  if (random_.chance(0.5)) layout.padding = random_.between(1, 9);
  if (random_.chance(0.5)) layout.offset = random_.between(1, 9);
  return layout;
}

MemoryLayout Builder::input_layout(int rank) {
  MemoryLayout drawn = layout(rank);
  if (!for_family()) return drawn;
  constexpr int elements = 8;  // 16 bytes of 16-bit elements
  drawn.padding *= elements;
  drawn.offset *= elements;
  return drawn;
}

OutputView Builder::index_tensor(const std::vector<std::int64_t>& values, bool may_be_int64) {
  const DType type = may_be_int64 && random_.chance(0.5) ? DType::i64 : DType::i32;
  const OutputView tensor = drawn_.memory.allocate(type, {std::int64_t(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) store(tensor, std::int64_t(i), double(values[i]));
  return tensor;
}

void Builder::fill_row(const OutputView& tensor, std::int64_t offset, int columns) {
  const double size = tensor.data() == query_.data() ? query_size_ : key_size_;
  for (int c = 0; c < columns; ++c)
    store_at(tensor, offset + c,
             values_ == Values::huge ? random_.between(-64, 64) : size * random_.normal());
}

Descale Builder::descale(DType stored, const Extents& token_shape, int heads, Granularity per) {
  const bool scaled = random_.chance(0.7);
  const bool wanted = limits_.demand ? limits_.demand->descale.has_value() : scaled;
  if (!is_fp8(stored) || !wanted || values_ == Values::huge) return {};
  if (limits_.demand) per = *limits_.demand->descale;
  Extents shape;
  switch (per) {
    case Granularity::tensor: shape = random_.chance(0.5) ? Extents{} : Extents{1}; break;
    case Granularity::head: shape = Extents{heads}; break;
    case Granularity::token: shape = token_shape; break;
    case Granularity::page: shape = Extents{pages_, heads}; break;
  }
  const OutputView scale = drawn_.memory.allocate(DType::f32, shape);
  for (std::int64_t i = 0; i < scale.element_count(); ++i)
    store(scale, i, random_.uniform(0.1, 1.2));
  return {scale, per};
}

void Builder::build_query() {
  const std::int64_t batch = std::int64_t(sequences_.size());
  const std::int64_t rows = batch == 0 ? 0 : at(0).query_rows;
  Extents shape{batch, rows, heads_, head_dim_};
  if (ragged_query_) {
    std::vector<std::int64_t> borders{0};
    for (const Sequence& s : sequences_) borders.push_back(borders.back() + s.query_length);
    const std::int64_t slack = has(Feature::slack, random_.chance(0.3)) ? random_.between(1, 5) : 0;
    shape = {borders.back() + slack, heads_, head_dim_};
    tensors().cu_seqlens_q = index_tensor(borders);
  } else if (batch > 0) {
    std::vector<std::int64_t> lengths;
    bool full = true;
    for (const Sequence& s : sequences_) {
      lengths.push_back(s.query_length);
      full = full && s.query_length == rows;
    }
    if (!full || has(Feature::query_lengths, random_.chance(0.1)))
      tensors().query_lengths = index_tensor(lengths);
  }
  query_ = drawn_.memory.allocate(query_type_, shape, input_layout(shape.size()));
  for (int b = 0; b < int(batch); ++b)
    for (int i = 0; i < at(b).query_length; ++i)
      for (int h = 0; h < heads_; ++h)
        fill_row(query_,
                 ragged_query_ ? (at(b).query_begin + i) * query_.stride(0) + h * query_.stride(1)
                               : b * query_.stride(0) + i * query_.stride(1) + h * query_.stride(2),
                 head_dim_);
  tensors().query = query_;
  Extents token = shape;
  token = ragged_query_ ? Extents{shape[0], heads_} : Extents{batch, rows, heads_};
  const auto per = random_.one_of({Granularity::tensor, Granularity::head, Granularity::token});
  tensors().query_descale = descale(query_type_, token, heads_, per);
  if (has(Feature::scale, random_.chance(0.25)) || values_ == Values::huge)
    options().scale = values_ == Values::huge ? random_.one_of({1.0, 0.5, -1.0})
                                              : random_.one_of({0.0, 1.0, 0.3, -0.2, 0.05});
  if (options().scale) note("scale {}", *options().scale);
}

bool Builder::hidden_from_all(int b, int first_key, int last_key) {
  const Sequence& s = at(b);
  if (s.query_length == 0) return true;
  const score::MaskNode* mask = options().mask.node();
  if (!mask) return false;
  const Positions positions = options().positions.value_or(Positions{});
  const auto position = [](std::int64_t start, std::int64_t stride, int index) {
    return int(start + stride * index);
  };
  const score::Interval queries(
      position(s.query_start, positions.query.stride, 0),
      position(s.query_start, positions.query.stride, s.query_length - 1));
  const score::Interval keys(position(s.key_start, positions.key.stride, first_key),
                             position(s.key_start, positions.key.stride, last_key));
  for (int h = 0; h < heads_; ++h) {
    const score::Place place{
        b, h, h / (heads_ / kv_heads_), s.query_length, s.key_length, int(s.offset)};
    if (!mask->classify(queries, keys, place).no()) return false;
  }
  return true;
}

void Builder::find_visible_ends(Sequence& s, int b) {
  s.first_visible = 0;
  s.last_visible = s.key_length;
  while (s.first_visible < s.key_length && hidden_from_all(b, s.first_visible, s.first_visible))
    ++s.first_visible;
  while (s.last_visible > s.first_visible &&
         hidden_from_all(b, s.last_visible - 1, s.last_visible - 1))
    --s.last_visible;
}

// Keys that the mask hides from every query are NaN. Between keys that are seen, that holds for K
// alone: a value there weighs 0, and 0 times NaN may reach the rows of its tile.
void Builder::write_key(int b, int j, const KeyPlace& key, const KeyPlace& value) {
  const Sequence& s = at(b);
  if (j < s.first_visible || j >= s.last_visible) return;
  const bool hidden = value_.present() && hidden_from_all(b, j, j);
  for (int h = 0; h < kv_heads_; ++h) {
    if (!hidden) fill_row(key_, key.offset + h * key.head_stride, head_dim_);
    if (value_) fill_row(value_, value.offset + h * value.head_stride, value_dim_);
  }
}

void Builder::build_dense_keys() {
  const std::int64_t batch = std::int64_t(sequences_.size());
  const std::int64_t rows = batch == 0 ? 0 : at(0).key_rows;
  key_ = drawn_.memory.allocate(cache_type_, {batch, rows, kv_heads_, head_dim_}, input_layout(4));
  if (!view_of_key_)
    value_ =
        drawn_.memory.allocate(value_type_, {batch, rows, kv_heads_, value_dim_}, input_layout(4));
  std::vector<std::int64_t> lengths;
  bool full = true;
  for (int b = 0; b < int(batch); ++b) {
    lengths.push_back(at(b).key_length);
    full = full && at(b).key_length == rows;
    for (int j = 0; j < at(b).key_length; ++j)
      write_key(b, j, {b * key_.stride(0) + j * key_.stride(1), key_.stride(2)},
                value_ ? KeyPlace{b * value_.stride(0) + j * value_.stride(1), value_.stride(2)}
                       : KeyPlace{});
  }
  if (batch > 0 && (!full || has(Feature::key_lengths, random_.chance(0.1))))
    tensors().key_lengths = index_tensor(lengths);
}

void Builder::build_ragged_keys() {
  std::vector<std::int64_t> borders{0};
  for (const Sequence& s : sequences_) borders.push_back(borders.back() + s.key_length);
  const std::int64_t total =
      borders.back() + (has(Feature::slack, random_.chance(0.3)) ? random_.between(1, 5) : 0);
  tensors().cu_seqlens_k = index_tensor(borders);
  key_ = drawn_.memory.allocate(cache_type_, {total, kv_heads_, head_dim_}, input_layout(3));
  if (!view_of_key_)
    value_ = drawn_.memory.allocate(value_type_, {total, kv_heads_, value_dim_}, input_layout(3));
  for (int b = 0; b < int(sequences_.size()); ++b)
    for (int j = 0; j < at(b).key_length; ++j) {
      const std::int64_t row = at(b).key_begin + j;
      write_key(b, j, {row * key_.stride(0), key_.stride(1)},
                value_ ? KeyPlace{row * value_.stride(0), value_.stride(1)} : KeyPlace{});
    }
}

void Builder::draw_pages() {
  int needed = 0;
  for (Sequence& s : sequences_) needed += (s.key_length + page_size_ - 1) / page_size_;
  pages_ = needed + random_.between(0, 3);
  std::vector<int> free(static_cast<std::size_t>(pages_));
  std::iota(free.begin(), free.end(), 0);
  for (std::size_t i = free.size(); i > 1; --i)
    std::swap(free[i - 1], free[std::size_t(random_.between(0, int(i) - 1))]);
  const bool share = random_.chance(0.2);
  for (std::size_t b = 0; b < sequences_.size(); ++b) {
    const int count = (sequences_[b].key_length + page_size_ - 1) / page_size_;
    for (int p = 0; p < count; ++p) {
      if (share && b > 0 && p < int(sequences_[b - 1].pages.size()) - 1 &&
          sequences_[b - 1].pages[std::size_t(p)] >= 0) {
        sequences_[b].pages.push_back(sequences_[b - 1].pages[std::size_t(p)]);
        continue;
      }
      sequences_[b].pages.push_back(free.back());
      free.pop_back();
    }
  }
  for (int b = 0; b < int(sequences_.size()); ++b)
    for (int p = 0; p < int(at(b).pages.size()); ++p)
      if (hidden_from_all(b, p * page_size_,
                          std::min((p + 1) * page_size_, at(b).key_length) - 1) &&
          random_.chance(0.5))
        at(b).pages[std::size_t(p)] = -1;
}

void Builder::build_page_tables() {
  const std::int64_t batch = std::int64_t(sequences_.size());
  std::vector<std::int64_t> lengths, indptr{0}, indices, last;
  std::size_t widest = 0;
  for (const Sequence& s : sequences_) {
    lengths.push_back(s.key_length);
    indices.insert(indices.end(), s.pages.begin(), s.pages.end());
    indptr.push_back(std::int64_t(indices.size()));
    last.push_back(s.key_length == 0 ? 0 : (s.key_length - 1) % page_size_ + 1);
    widest = std::max(widest, s.pages.size());
  }
  if (has(Feature::page_list, random_.chance(0.4))) {
    tensors().pages.indptr = index_tensor(indptr, false);
    tensors().pages.indices = index_tensor(indices, false);
    tensors().pages.last_page_size = index_tensor(last, false);
    return;
  }
  widest += std::size_t(random_.between(0, 2));
  const OutputView table = drawn_.memory.allocate(DType::i32, {batch, std::int64_t(widest)});
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::size_t p = 0; p < at(int(b)).pages.size(); ++p)
      store(table, b * std::int64_t(widest) + std::int64_t(p), at(int(b)).pages[p]);
  tensors().pages.table = table;
  tensors().key_lengths = index_tensor(lengths);
}

void Builder::build_paged_keys() {
  draw_pages();
  build_page_tables();
  const bool nhd = !has(Feature::pages_hnd, !random_.chance(0.5));
  options().page_layout = nhd ? PageLayout::nhd : PageLayout::hnd;
  const auto pool = [&](DType type, int columns) {
    const Extents shape = nhd ? Extents{pages_, page_size_, kv_heads_, columns}
                              : Extents{pages_, kv_heads_, page_size_, columns};
    return drawn_.memory.allocate(type, shape, input_layout(4));
  };
  key_ = pool(cache_type_, head_dim_);
  if (!view_of_key_) value_ = pool(value_type_, value_dim_);
  const int slot_axis = nhd ? 1 : 2, head_axis = nhd ? 2 : 1;
  for (int b = 0; b < int(sequences_.size()); ++b)
    for (int j = 0; j < at(b).key_length; ++j) {
      const int page = at(b).pages[std::size_t(j / page_size_)], slot = j % page_size_;
      if (page < 0) continue;
      const auto place = [&](const OutputView& pool_of) {
        return KeyPlace{page * pool_of.stride(0) + slot * pool_of.stride(slot_axis),
                        pool_of.stride(head_axis)};
      };
      write_key(b, j, place(key_), value_ ? place(value_) : KeyPlace{});
    }
  note("paged: page size {}, {} pages, {}, {}", page_size_, pages_, nhd ? "NHD" : "HND",
       tensors().pages.table ? "table" : "index list");
}

void Builder::build_key_descales() {
  const std::int64_t batch = std::int64_t(sequences_.size());
  const Extents token = keys_ == Keys::dense    ? Extents{batch, key_.dim(1), kv_heads_}
                        : keys_ == Keys::ragged ? Extents{key_.dim(0), kv_heads_}
                                                : Extents{pages_, page_size_, kv_heads_};
  const auto per = [&] {
    const Granularity any = random_.one_of(
        {Granularity::tensor, Granularity::head, Granularity::token, Granularity::page});
    return any == Granularity::page && keys_ != Keys::paged ? Granularity::head : any;
  };
  tensors().key_descale = descale(cache_type_, token, kv_heads_, per());
  if (!view_of_key_) tensors().value_descale = descale(value_type_, token, kv_heads_, per());
}

void Builder::build_keys() {
  for (int b = 0; b < int(sequences_.size()); ++b) find_visible_ends(at(b), b);
  switch (keys_) {
    case Keys::dense: build_dense_keys(); break;
    case Keys::ragged: build_ragged_keys(); break;
    case Keys::paged: build_paged_keys(); break;
  }
  tensors().key = key_;
  if (view_of_key_) {
    options().value_source = ValueSource::view_of_key;
    options().value_dim = value_dim_;
  } else {
    tensors().value = value_;
  }
  build_key_descales();
}

void Builder::build_bias() {
  const int batch = int(sequences_.size());
  const int rows = ragged_query_ ? longest(&Sequence::query_length) : at(0).query_rows;
  const int keys = keys_ == Keys::dense ? at(0).key_rows : longest(&Sequence::key_length);
  const DType type = query_type_ == DType::f64
                         ? DType::f64
                         : random_.one_of({DType::f32, DType::f32, DType::f16, DType::bf16});
  // Before the shape, and not beside it: compilers differ in which argument they draw first.
  const MemoryLayout how = layout(4, false);
  const OutputView bias = drawn_.memory.allocate(
      type,
      {random_.chance(0.5) ? batch : 1, random_.chance(0.5) ? heads_ : 1,
       rows > 0 && random_.chance(0.2) ? 1 : rows, keys > 0 && random_.chance(0.1) ? 1 : keys},
      how);
  // -1e30 stands for the finfo.min of frameworks: an ordinary number, not a hidden key.
  const double hole =
      type == DType::f16 || random_.chance(0.6) ? -std::numeric_limits<double>::infinity() : -1e30;
  const double holes = random_.one_of({0.0, 0.1, 0.6, 1.0});
  for (std::int64_t i = 0; i < bias.element_count(); ++i)
    store(bias, i, random_.chance(holes) ? hole : random_.normal());
  tensors().bias = bias;
  note("bias {}, {} of it {}", bias.to_string(), holes, hole);
}

void Builder::build_score_tensors() {
  if (sequences_.empty()) return;
  const bool plain = values_ == Values::huge;
  if (has(Feature::softcap, random_.chance(0.2))) {
    options().softcap = random_.uniform(0.5, 30);
    note("softcap {}", *options().softcap);
  }
  if (!plain && has(Feature::alibi, random_.chance(0.15))) {
    const int batch = int(sequences_.size());
    const bool own = random_.chance(0.4);
    const OutputView slopes =
        drawn_.memory.allocate(DType::f32, own ? Extents{batch, heads_} : Extents{heads_});
    for (std::int64_t i = 0; i < slopes.element_count(); ++i)
      store(slopes, i, random_.uniform(-0.02, 0.2));
    tensors().alibi_slopes = slopes;
    note("alibi slopes {}", slopes.to_string());
  }
  if (!plain && has(Feature::bias, random_.chance(0.15))) build_bias();
  if (has(Feature::sinks, random_.chance(0.15))) {
    const OutputView sinks = drawn_.memory.allocate(DType::f32, {heads_});
    for (int h = 0; h < heads_; ++h) store(sinks, h, 2 * random_.normal());
    tensors().sinks = sinks;
    note("sinks");
  }
}

void Builder::inject_nan() {
  drawn_.value_has_nan.assign(sequences_.size(), false);
  if (!has(Feature::nan_input, random_.chance(0.03)) || sequences_.empty()) return;
  const int b = random_.between(0, int(sequences_.size()) - 1);
  const Sequence& s = at(b);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (s.query_length > 0 && random_.chance(0.5)) {
    const int row = random_.between(0, s.query_length - 1);
    store_at(query_,
             ragged_query_ ? (s.query_begin + row) * query_.stride(0)
                           : b * query_.stride(0) + row * query_.stride(1),
             nan);
    note("NaN in query row {} of sequence {}", row, b);
  } else if (s.key_length > 0 && keys_ != Keys::paged) {
    const int j = random_.between(0, s.key_length - 1);
    if (hidden_from_all(b, j, j)) return;
    const bool in_value = value_.present() && random_.chance(0.5);
    const OutputView& tensor = in_value ? value_ : key_;
    store_at(tensor,
             keys_ == Keys::ragged ? (s.key_begin + j) * tensor.stride(0)
                                   : b * tensor.stride(0) + j * tensor.stride(1),
             nan);
    drawn_.value_has_nan[std::size_t(b)] = in_value || view_of_key_;
    note("NaN in {} row {} of sequence {}", in_value ? "value" : "key", j, b);
  }
}

void Builder::build_outputs() {
  const bool wide = query_type_ == DType::f64;
  DType type = is_fp8(query_type_) ? DType::bf16 : query_type_;
  if (!wide && has(Feature::other_out_type, random_.chance(0.2)))
    type = random_.one_of({DType::bf16, DType::f16, DType::f32});
  const std::int64_t batch = std::int64_t(sequences_.size());
  if (!tensors().sinks && has(Feature::partial, random_.chance(0.12))) {
    options().output = OutputKind::partial;
    type = wide ? DType::f64 : DType::f32;
    note("partial output");
  }
  if (options().output == OutputKind::finished &&
      has(Feature::batch_invariant, random_.chance(0.2))) {
    options().reproducibility = Reproducibility::batch_invariant;
    note("batch invariant");
  }
  Extents shape = query_.shape();
  shape[shape.size() - 1] = value_dim_;
  tensors().out = drawn_.memory.allocate(type, shape, layout(shape.size()));
  if (options().output == OutputKind::partial || has(Feature::lse, random_.chance(0.6))) {
    const Extents lse_shape =
        ragged_query_ ? Extents{heads_, query_.dim(0)} : Extents{batch, heads_, query_.dim(1)};
    tensors().lse = drawn_.memory.allocate(wide ? DType::f64 : DType::f32, lse_shape,
                                           layout(lse_shape.size(), false));
  }
}

}  // namespace

RandomProblem make_random_problem(std::uint64_t seed, const GeneratorLimits& limits) {
  return Builder(seed, limits).build();
}

void RandomProblem::poison_outputs() {
  memory.buffer_of(problem.tensors.out).poison_all();
  if (problem.tensors.lse) memory.buffer_of(problem.tensors.lse).poison_all();
}

std::string RandomProblem::describe() const {
  const Tensors& t = problem.tensors;
  std::string text = fmt::format("problem of seed {}\n", seed);
  const auto tensor = [&](const char* name, const TensorView& view) {
    if (view) text += fmt::format("  {} {}\n", name, view.to_string());
  };
  tensor("query", t.query);
  tensor("key", t.key);
  tensor("value", t.value);
  tensor("out", t.out);
  tensor("lse", t.lse);
  tensor("cu_seqlens_q", t.cu_seqlens_q);
  tensor("cu_seqlens_k", t.cu_seqlens_k);
  tensor("query_lengths", t.query_lengths);
  tensor("key_lengths", t.key_lengths);
  tensor("query_descale", t.query_descale.scale);
  tensor("key_descale", t.key_descale.scale);
  tensor("value_descale", t.value_descale.scale);
  for (const std::string& line : notes) text += "  " + line + "\n";
  return text;
}

}  // namespace tilefold::testing
