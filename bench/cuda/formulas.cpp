#include "bench/cuda/formulas.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tilefold/error.hpp"
#include "tilefold/expression.hpp"

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

const Documents& drawn_documents(int length) {
  static std::map<int, Documents> all;
  return all.try_emplace(length, length).first->second;
}
score::Document documents_of(int length) { return {drawn_documents(length).table->lookup()}; }

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

constexpr int block = 128, drafts = 64;

/// Side tensors of one length.
struct TextMaterial {
  std::vector<float> slopes = std::vector<float>(heads);
  std::vector<std::int32_t> blocks;
  std::unique_ptr<bool[]> tree{new bool[drafts * drafts]};
  std::vector<SideTensor> tensors;

  TextMaterial(const std::vector<std::int32_t>& ids, int length) {
    alibi_slopes(heads, slopes.data());
    const int side = (length + block - 1) / block;
    std::mt19937 random(2026);
    for (int i = 0; i < side * side; ++i) blocks.push_back(random() % 4 == 0 ? 1 : 0);
    // Draft i follows draft (i - 1) / 3: a ternary tree, each draft sees its ancestors.
    for (int i = 0; i < drafts * drafts; ++i) tree[i] = false;
    for (int i = 0; i < drafts; ++i)
      for (int at = i;; at = (at - 1) / 3) {
        tree[i * drafts + at] = true;
        if (at == 0) break;
      }
    tensors = {SideTensor("doc", TensorView(ids.data(), DType::i32, {length})),
               SideTensor("slope", TensorView(slopes.data(), DType::f32, {heads})),
               SideTensor("block", TensorView(blocks.data(), DType::i32, {side, side})),
               SideTensor("tree", TensorView(tree.get(), {drafts, drafts}))};
  }
};

struct TextFormula {
  const char *name, *mask, *score;
};
constexpr TextFormula text_formulas[] = {
    // With constants alone these two would be what the built-in masks are, and need no code.
    {"text causal", "k <= q + off + none", nullptr},
    {"text window", "k <= q + off and q + off - k < reach", nullptr},
    {"text alibi", "k <= q + off + none", "s + slope[head] * real(k - (q + off))"},
    {"text softcap", "true", "30.0 * tanh(s / 30.0)"},
    {"text documents", "k <= q + off + none and doc[q + off] == doc[k]", nullptr},
    {"text prefix", "k <= q + off + none or k < Sk // 4", nullptr},
    {"text blocks", "block[q // 128, k // 128] == 1", nullptr},
    {"text tree", "k < Sk - 64 or tree[q, k - (Sk - 64)]", nullptr},
};
constexpr const char* text_names[] = {"text causal",  "text window",    "text alibi",
                                      "text softcap", "text documents", "text prefix",
                                      "text blocks",  "text tree"};

NamedFormula text_formula(const TextFormula& of, int length) {
  static std::map<int, TextMaterial> all;
  const TextMaterial& material =
      all.try_emplace(length, drawn_documents(length).ids, length).first->second;
  const Names names{material.tensors, {Scalar("none", 0), Scalar("reach", 1024)}};
  return {of.name, parse_mask(of.mask, names),
          of.score == nullptr ? ScoreChange() : parse_score(of.score, names)};
}

constexpr const char* names[] = {"causal", "window", "documents", "relative", "alibi", "softcap"};

}  // namespace

std::span<const char* const> formula_names() { return names; }
std::span<const char* const> text_formula_names() { return text_names; }

NamedFormula named_formula(const std::string& name, int length) {
  for (const TextFormula& of : text_formulas)
    if (name == of.name) return text_formula(of, length);
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
