#include "bench/cuda/formulas.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

constexpr int heads = 32, reach = 512, documents_a_sequence = 32;

struct Documents {
  std::vector<std::int32_t> ids;
  std::unique_ptr<LookupTable> table;

  explicit Documents(int length) : ids(std::size_t(length)) {
    std::mt19937 random(2026);
    std::vector<int> cuts(documents_a_sequence - 1);
    for (int& cut : cuts) cut = int(random() % unsigned(length));
    for (int cut : cuts) ++ids[std::size_t(cut)];
    for (std::size_t i = 1; i < ids.size(); ++i) ids[i] += ids[i - 1];
    table = std::make_unique<LookupTable>(TensorView(ids.data(), DType::i32, {length}));
  }
};

score::Document documents_of(int length) {
  static std::map<int, Documents> all;
  return {all.try_emplace(length, length).first->second.table->lookup()};
}

score::RelativeBias relative_bias() {
  constexpr int size = 2 * reach + 1;
  static const std::vector<float> values = [] {
    std::vector<float> table;
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < size; ++i) table.push_back(float((h * 7 + i * 13) % 32) / 16 - 1);
    return table;
  }();
  return {{values.data(), size, heads, size}, reach};
}

score::Alibi alibi_of_heads() {
  static const std::vector<float> slopes = [] {
    std::vector<float> of_heads(heads);
    alibi_slopes(heads, of_heads.data());
    return of_heads;
  }();
  return {slopes.data(), 0};
}

constexpr const char* names[] = {"causal", "window", "documents", "relative", "alibi", "softcap"};

}  // namespace

std::span<const char* const> formula_names() { return names; }

NamedFormula named_formula(const std::string& name, int length) {
  const score::Causal causal{};
  if (name == "causal") return {names[0], mask(CausalFormula{}), {}};
  if (name == "window") return {names[1], mask(causal && score::Window{1023, -1}), {}};
  if (name == "documents") return {names[2], mask(causal && documents_of(length)), {}};
  if (name == "relative") return {names[3], mask(causal), change(relative_bias())};
  if (name == "alibi") return {names[4], mask(causal), change(alibi_of_heads())};
  if (name == "softcap") return {names[5], {}, change(score::SoftCap{30})};
  throw Error(ErrorCode::invalid_argument, "there is no formula " + name);
}

long long visible_tiles(const Mask& mask, int length) {
  constexpr int tile = 128;
  long long visible = 0;
  const score::Place place{0, 0, 0, length, length, 0};
  const auto of = [&](int begin) {
    return score::Interval(begin, std::min(begin + tile, length) - 1);
  };
  for (int q = 0; q < length; q += tile)
    for (int k = 0; k < length; k += tile)
      visible += mask.node() == nullptr || !mask.node()->classify(of(q), of(k), place).no();
  return visible;
}

}  // namespace tilefold::bench
