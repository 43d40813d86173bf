// The recipes of docs/formulas.md, read out of it: each says what an independent rule says, for
// every element, tile and row of a whole attention; its C++ form is the same program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "core/geometry.hpp"
#include "reference/attention.hpp"
#include "score/program/program.hpp"
#include "support/accuracy.hpp"
#include "support/random.hpp"
#include "support/tensor_memory.hpp"
#include "tilefold/attention.hpp"
#include "tilefold/expression.hpp"

namespace tilefold {
namespace {

using score::Place;
using score::TilePositions;
using score::Truth;
using testing::Random;

constexpr int batch_size = 2, heads = 4, tile = 64;

/// Lengths that a recipe is tried at.
struct Lengths {
  int queries, keys;
  int offset() const { return keys - queries; }
  Place place(int sequence, int head) const {
    return {sequence, head, head / 2, queries, keys, offset()};
  }
};

enum class Tiles {
  sharp,                ///< no tile is partial that is all or none
  sharp_where_aligned,  ///< where Sk - Sq is a multiple of the tile
  blunt,
};

struct Recipe {
  std::string block;  // its code block in the page: "mask causal"
  Expression written;
  Names names{};
  std::function<bool(int q, int k, const Place&)> keep{};  // of masks
  std::function<double(double s, int q, int k, const Place&)> change{};
  Tiles tiles = Tiles::sharp;
  bool is_mask() const { return keep != nullptr; }
};

/// The code blocks of the page that are recipes, by name.
const std::map<std::string, std::string>& page() {
  static const std::map<std::string, std::string> blocks = [] {
    std::map<std::string, std::string> found;
    std::ifstream file(TILEFOLD_SOURCE_DIR "/docs/formulas.md");
    std::string line, name;
    while (std::getline(file, line)) {
      if (name.empty() && (line.starts_with("```mask ") || line.starts_with("```score ")))
        name = line.substr(3);
      else if (line.starts_with("```"))
        name.clear();
      else if (!name.empty())
        found[name] += line + "\n";
    }
    return found;
  }();
  return blocks;
}

/// The recipes with tensors for one pair of lengths.
class Recipes {
 public:
  explicit Recipes(Lengths lengths) : lengths_(lengths) {
    simple();
    bands();
    documents_and_prefixes();
    scores();
    trees();
    global_and_neighbours();
  }
  Recipes(const Recipes&) = delete;
  Recipes& operator=(const Recipes&) = delete;
  const std::vector<Recipe>& all() const { return all_; }

 private:
  void simple();
  void bands();
  void documents_and_prefixes();
  void scores();
  void trees();
  void global_and_neighbours();
  template <class Value>
  SideTensor tensor(const char* name, DType dtype, const Extents& shape, const Value& value) {
    const OutputView view = memory_.allocate(dtype, shape);
    for (std::int64_t i = 0; i < view.element_count(); ++i)
      testing::store(view, i, double(value(i)));
    return {name, view};
  }

  Lengths lengths_;
  Random random_{3};
  testing::TensorMemory memory_;
  std::vector<Recipe> all_;
};

using namespace symbols;
int behind(int query, int key, const Place& at) { return query + at.offset - key; }

void Recipes::simple() {
  all_.push_back({.block = "mask causal",
                  .written = k <= q + off,
                  .keep = [](int i, int j, const Place& at) { return behind(i, j, at) >= 0; }});
  const Scalar cap("cap", 2.5);
  all_.push_back({.block = "score softcap",
                  .written = cap * tanh(s / cap),
                  .names = {.scalars = {cap}},
                  .change = [](double x, int, int, const Place&) {
                    const double e = std::exp(2 * x / 2.5);
                    return 2.5 * (e - 1) / (e + 1);
                  }});
}

void Recipes::bands() {
  const Scalar left("left", 90), right("right", 20), reach("reach", 70);
  all_.push_back({.block = "mask window",
                  .written = q + off - left <= k && k <= q + off + right,
                  .names = {.scalars = {left, right}},
                  .keep = [](int i, int j, const Place& at) {
                    return behind(i, j, at) <= 90 && behind(i, j, at) >= -20;
                  }});
  const Scalar step("step", 4);
  all_.push_back({.block = "mask dilated",
                  .written = k <= q + off && (q + off - k) % step == 0,
                  .names = {.scalars = {step}},
                  .keep = [](int i, int j, const Place& at) {
                    return behind(i, j, at) >= 0 && behind(i, j, at) % 4 == 0;
                  }});
  const Scalar first("first", 4);
  all_.push_back({.block = "mask sink window",
                  .written = k <= q + off && (k < first || q + off - k < reach),
                  .names = {.scalars = {first, reach}},
                  .keep = [](int i, int j, const Place& at) {
                    return behind(i, j, at) >= 0 && (j < 4 || behind(i, j, at) < 70);
                  }});
}

void Recipes::documents_and_prefixes() {
  const SideTensor first =
      tensor("first", DType::i32, {batch_size}, [](std::int64_t b) { return 33 + 70 * b; });
  all_.push_back({.block = "mask prefix",
                  .written = k <= q + off || k < first[batch],
                  .names = {.tensors = {first}},
                  .keep = [](int i, int j, const Place& at) {
                    return behind(i, j, at) >= 0 || j < 33 + 70 * at.batch;
                  }});
  std::vector<int> ids;
  for (int i = 0, id = 7; i < lengths_.keys; ++i) ids.push_back(id += random_.chance(0.02));
  const SideTensor doc = tensor("doc", DType::i32, {lengths_.keys},
                                [&](std::int64_t i) { return ids[std::size_t(i)]; });
  all_.push_back({.block = "mask documents",
                  .written = k <= q + off && doc[q + off] == doc[k],
                  .names = {.tensors = {doc}},
                  .keep =
                      [ids](int i, int j, const Place& at) {
                        return behind(i, j, at) >= 0 &&
                               ids[std::size_t(std::max(0, i + at.offset))] == ids[std::size_t(j)];
                      },
                  .tiles = Tiles::sharp_where_aligned});
}

/// T5's rule by its borders: half of the buckets hold one distance each, the others' borders grow
/// by equal factors up to `most`, and the last holds all beyond.
int t5_bucket(int distance, int buckets, int most) {
  const int exact = buckets / 2;
  if (distance < exact) return distance;
  int bucket = exact;
  for (int i = 1; i < buckets - exact; ++i)
    if (distance >= exact * std::pow(double(most) / exact, double(i) / (buckets - exact)) - 1e-9)
      bucket = exact + i;
  return bucket;
}

void Recipes::scores() {
  const SideTensor slope = tensor("slope", DType::f32, {heads},
                                  [](std::int64_t h) { return std::exp2(-2.0 * double(h + 1)); });
  all_.push_back({.block = "score alibi",
                  .written = s + slope[head] * real(k - (q + off)),
                  .names = {.tensors = {slope}},
                  .change = [](double x, int i, int j, const Place& at) {
                    return x - std::exp2(-2.0 * (at.query_head + 1)) * behind(i, j, at);
                  }});
  std::vector<float> values;
  for (int i = 0; i < 32 * heads; ++i) values.push_back(float(random_.normal()));
  const SideTensor bias = tensor("bias", DType::f32, {32, heads},
                                 [&](std::int64_t i) { return values[std::size_t(i)]; });
  const auto entry = [values](int bucket, int head_index) {
    return double(values[std::size_t(bucket * heads + head_index)]);
  };
  const Expression d = abs(q + off - k);
  all_.push_back(
      {.block = "score t5 encoder",
       .written =
           s + bias(select(k > q + off, 16, 0) +
                        select(d < 8, d, min(15, 8 + floor(log(d / 8) / log(16.0) * 8 + 0.0001))),
                    head),
       .names = {.tensors = {bias}},
       .change = [entry](double x, int i, int j, const Place& at) {
         const int n = behind(i, j, at);
         return x + entry((n < 0 ? 16 : 0) + t5_bucket(std::abs(n), 16, 128), at.query_head);
       }});
  const Expression back = max(q + off - k, 0);
  all_.push_back(
      {.block = "score t5 decoder",
       .written = s + bias(select(back < 16, back,
                                  min(31, 16 + floor(log(back / 16) / log(8.0) * 16 + 0.0001))),
                           head),
       .names = {.tensors = {bias}},
       .change = [entry](double x, int i, int j, const Place& at) {
         return x + entry(t5_bucket(std::max(0, behind(i, j, at)), 32, 128), at.query_head);
       }});
}

void Recipes::trees() {
  // Every draft hangs on an earlier one, in two branches; a query sees the prefix, its ancestors
  // and itself.
  const int drafts = lengths_.queries, words = (drafts + 31) / 32;
  const std::vector<bool> none(static_cast<std::size_t>(drafts));
  std::vector<std::vector<bool>> sees(none.size(), none);
  for (int i = 0; i < drafts; ++i) {
    const int branch = i > drafts / 2 ? drafts / 2 : 0;
    const int parent =
        i == drafts / 2 ? 0 : random_.between(std::max(branch, i - 9), std::max(branch, i - 1));
    if (i > 0) sees[std::size_t(i)] = sees[std::size_t(parent)];
    sees[std::size_t(i)][std::size_t(i)] = true;
  }
  const auto keep = [sees, drafts](int i, int j, const Place& at) {
    const int draft = j - at.offset;
    return draft < 0 || (draft < drafts && sees[std::size_t(i)][std::size_t(draft)]);
  };
  const SideTensor tree = tensor("tree", DType::boolean, {drafts, drafts}, [&](std::int64_t i) {
    return bool(sees[std::size_t(i / drafts)][std::size_t(i % drafts)]);
  });
  all_.push_back({.block = "mask tree",
                  .written = k < off || tree(q, k - off),
                  .names = {.tensors = {tree}},
                  .keep = keep,
                  .tiles = Tiles::sharp_where_aligned});
  const SideTensor packed = tensor("ancestors", DType::i32, {drafts, words}, [&](std::int64_t i) {
    unsigned word = 0;
    for (int bit = 0; bit < 32; ++bit) {
      const std::int64_t draft = i % words * 32 + bit;
      if (draft < drafts && sees[std::size_t(i / words)][std::size_t(draft)]) word |= 1u << bit;
    }
    return int(word);
  });
  all_.push_back(
      {.block = "mask tree of words",
       .written = k < off || (k <= q + off && bit(packed(q, (k - off) >> 5), (k - off) & 31)),
       .names = {.tensors = {packed}},
       .keep = keep,
       .tiles = Tiles::blunt});
}

void Recipes::global_and_neighbours() {
  const Scalar reach("reach", 40);
  const auto is_global = [](int i) { return i == 0 || i == 100; };
  const SideTensor global = tensor("global", DType::boolean, {lengths_.keys},
                                   [&](std::int64_t i) { return is_global(int(i)); });
  all_.push_back({.block = "mask longformer",
                  .written = abs(q + off - k) <= reach || global[q + off] || global[k],
                  .names = {.tensors = {global}, .scalars = {reach}},
                  .keep =
                      [is_global](int i, int j, const Place& at) {
                        return std::abs(behind(i, j, at)) <= 40 || is_global(j) ||
                               is_global(std::max(0, i + at.offset));
                      },
                  .tiles = Tiles::sharp_where_aligned});
  const Scalar width("width", 32), radius("radius", 2);
  all_.push_back({.block = "mask neighbourhood",
                  .written = abs((q + off) % width - k % width) <= radius &&
                             abs(floor_div(q + off, width) - floor_div(k, width)) <= radius,
                  .names = {.scalars = {width, radius}},
                  .keep =
                      [](int i, int j, const Place& at) {
                        const int p = i + at.offset + 3200;  // rows above the image have floors too
                        const int dx = p % 32 - j % 32, dy = p / 32 - 100 - j / 32;
                        return std::abs(dx) <= 2 && std::abs(dy) <= 2;
                      },
                  .tiles = Tiles::sharp_where_aligned});
}

class OracleMask final : public score::MaskNode {
 public:
  explicit OracleMask(const Recipe& recipe) : recipe_(recipe) {}
  void keep(const TilePositions& of, unsigned char* flags, int row) const override {
    for (int c = 0; c < of.keys; ++c)
      for (int r = 0; r < of.queries; ++r)
        flags[c * row + r] = recipe_.keep(of.query_first + r * of.query_step,
                                          of.key_first + c * of.key_step, of.place);
  }
  Truth classify(score::Interval, score::Interval, const Place&) const override {
    return Truth::some;
  }
  std::string text() const override { return recipe_.block; }

 private:
  const Recipe& recipe_;
};

class OracleChange final : public score::ScoreNode {
 public:
  explicit OracleChange(const Recipe& recipe) : recipe_(recipe) {}
  void change(const TilePositions& of, float* scores, int row) const override {
    change_all(of, scores, row);
  }
  void change(const TilePositions& of, double* scores, int row) const override {
    change_all(of, scores, row);
  }
  void differentiate(const TilePositions&, double*, double*, int) const override {}
  std::string text() const override { return recipe_.block; }

 private:
  template <class F> void change_all(const TilePositions& of, F* scores, int row) const {
    for (int c = 0; c < of.keys; ++c)
      for (int r = 0; r < of.queries; ++r)
        scores[c * row + r] =
            F(recipe_.change(double(scores[c * row + r]), of.query_first + r * of.query_step,
                             of.key_first + c * of.key_step, of.place));
  }
  const Recipe& recipe_;
};

constexpr Lengths unaligned[] = {{150, 150}, {70, 230}, {190, 130}};
constexpr Lengths aligned[] = {{256, 256}, {128, 320}};

const std::string& text_of(const Recipe& recipe) { return page().at(recipe.block); }

/// Calls visit(tile) for the tiles of one head.
template <class Visit> void each_tile(Lengths lengths, const Visit& visit) {
  for (int b = 0; b < batch_size; ++b)
    for (int i = 0; i < lengths.queries; i += tile)
      for (int j = 0; j < lengths.keys; j += tile)
        visit(TilePositions{i, 1, std::min(tile, lengths.queries - i), j, 1,
                            std::min(tile, lengths.keys - j), lengths.place(b, b + 1)});
}

TEST(FormulaRecipes, AreThoseOfThePage) {
  std::vector<std::string> tested, written;
  const Recipes recipes({64, 64});
  for (const Recipe& recipe : recipes.all()) tested.push_back(recipe.block);
  for (const auto& block : page()) written.push_back(block.first);
  EXPECT_THAT(tested, ::testing::UnorderedElementsAreArray(written));
}

TEST(FormulaRecipes, TextAndExpressionAreOneProgram) {
  const Recipes recipes({64, 64});
  for (const Recipe& recipe : recipes.all()) {
    const auto purpose = recipe.is_mask() ? score::Purpose::mask : score::Purpose::score_change;
    const auto program = make_program(parse_expression(text_of(recipe), recipe.names), purpose);
    const auto written = make_program(recipe.written, purpose);
    EXPECT_EQ(program.hash(), written.hash()) << recipe.block;
    EXPECT_EQ(program.text(), written.text()) << recipe.block;
  }
}

TEST(FormulaRecipes, MasksSayWhatTheRuleSays) {
  for (const Lengths lengths : {unaligned[0], unaligned[1], unaligned[2], aligned[0]}) {
    const Recipes recipes(lengths);
    for (const Recipe& recipe : recipes.all()) {
      if (!recipe.is_mask()) continue;
      const Mask mask = parse_mask(text_of(recipe), recipe.names);
      each_tile(lengths, [&](const TilePositions& at) {
        unsigned char flags[tile * tile];
        mask.node()->keep(at, flags, tile);
        bool all = true, any = false;
        for (int c = 0; c < at.keys; ++c)
          for (int r = 0; r < at.queries; ++r) {
            const bool kept = recipe.keep(at.query_first + r, at.key_first + c, at.place);
            ASSERT_EQ(flags[c * tile + r], kept)
                << recipe.block << " q " << at.query_first + r << " k " << at.key_first + c;
            all = all && kept;
            any = any || kept;
          }
        const Truth answer =
            mask.node()->classify({at.query_first, at.query_first + at.queries - 1},
                                  {at.key_first, at.key_first + at.keys - 1}, at.place);
        EXPECT_TRUE(answer.maybe() || (answer.yes() ? all : !any)) << recipe.block;
      });
    }
  }
}

TEST(FormulaRecipes, ScoresAreWhatTheRuleSays) {
  for (const Lengths lengths : {unaligned[0], unaligned[1], unaligned[2], Lengths{20, 3000}}) {
    const Recipes recipes(lengths);
    for (const Recipe& recipe : recipes.all()) {
      if (recipe.is_mask()) continue;
      const ScoreChange formula = parse_score(text_of(recipe), recipe.names);
      Random random(1);
      each_tile(lengths, [&](const TilePositions& at) {
        std::vector<float> single(tile * tile);
        for (float& x : single) x = float(random.normal());
        std::vector<double> given(single.begin(), single.end()), wide = given;
        formula.node()->change(at, single.data(), tile);
        formula.node()->change(at, wide.data(), tile);
        for (int c = 0; c < at.keys; ++c)
          for (int r = 0; r < at.queries; ++r) {
            const auto i = std::size_t(c * tile + r);
            const double want =
                recipe.change(given[i], at.query_first + r, at.key_first + c, at.place);
            ASSERT_NEAR(wide[i], want, 1e-12 * (1 + std::abs(want))) << recipe.block;
            ASSERT_NEAR(double(single[i]), want, 1e-6 * (1 + std::abs(want))) << recipe.block;
          }
      });
    }
  }
}

/// Tiles that are neither all nor none, by every element and by the formula's own answer.
struct PartialTiles {
  int real = 0, answered = 0;
};
PartialTiles count_partial(const Recipe& recipe, Lengths lengths) {
  const Mask mask = parse_mask(text_of(recipe), recipe.names);
  PartialTiles count;
  each_tile(lengths, [&](const TilePositions& at) {
    int kept = 0;
    for (int c = 0; c < at.keys; ++c)
      for (int r = 0; r < at.queries; ++r)
        kept += recipe.keep(at.query_first + r, at.key_first + c, at.place);
    count.real += kept > 0 && kept < at.keys * at.queries;
    count.answered += mask.node()
                          ->classify({at.query_first, at.query_first + at.queries - 1},
                                     {at.key_first, at.key_first + at.keys - 1}, at.place)
                          .maybe();
  });
  return count;
}

TEST(FormulaRecipes, TileAnswersAreSharpWhereThePageSaysSo) {
  const auto check = [](Lengths lengths, bool is_aligned) {
    const Recipes recipes(lengths);
    for (const Recipe& recipe : recipes.all()) {
      if (!recipe.is_mask()) continue;
      const PartialTiles count = count_partial(recipe, lengths);
      const bool sharp = recipe.tiles == Tiles::sharp ||
                         (is_aligned && recipe.tiles == Tiles::sharp_where_aligned);
      if (sharp)
        EXPECT_EQ(count.answered, count.real)
            << recipe.block << " at " << lengths.queries << " x " << lengths.keys;
      else
        EXPECT_GE(count.answered, count.real) << recipe.block;
    }
  };
  for (const Lengths lengths : aligned) check(lengths, true);
  const Recipes recipes(aligned[0]);
  for (const Recipe& recipe : recipes.all())
    if (recipe.is_mask() && recipe.tiles == Tiles::blunt) {
      const PartialTiles count = count_partial(recipe, aligned[0]);
      EXPECT_GT(count.answered, count.real) << recipe.block << " is sharp: the page may say so";
    }
  for (const Lengths lengths : unaligned) check(lengths, false);
}

class FormulaRecipesAttend : public ::testing::TestWithParam<DType> {};

/// Problem and outputs of one recipe, and the same by its rule.
void expect_accurate(const Recipe& recipe, Lengths lengths, DType dtype) {
  testing::TensorMemory memory;
  Random random(5);
  const auto drawn = [&](const Extents& shape) {
    const OutputView tensor = memory.allocate(dtype, shape);
    for (std::int64_t i = 0; i < tensor.element_count(); ++i)
      testing::store(tensor, i, random.normal());
    return tensor;
  };
  constexpr int dim = 16;
  Problem problem;
  Tensors& t = problem.tensors;
  t.query = drawn({batch_size, lengths.queries, heads, dim});
  t.key = drawn({batch_size, lengths.keys, heads / 2, dim});
  t.value = drawn({batch_size, lengths.keys, heads / 2, dim});
  t.out = memory.allocate(dtype, {batch_size, lengths.queries, heads, dim});
  t.lse = memory.allocate(DType::f32, {batch_size, heads, lengths.queries});
  problem.options.backend = Backend::cpu;
  Options rule = problem.options;
  if (recipe.is_mask()) {
    problem.options.mask = parse_mask(text_of(recipe), recipe.names);
    rule.mask = Mask(std::make_shared<OracleMask>(recipe));
  } else {
    problem.options.score = parse_score(text_of(recipe), recipe.names);
    rule.score = ScoreChange(std::make_shared<OracleChange>(recipe));
  }
  attend(problem);
  const core::Geometry geometry = core::resolve(problem);
  const auto want = reference::forward({geometry, t, rule});
  const auto eager = reference::eager({geometry, t, rule});
  using testing::AccuracyRule;
  const auto out = testing::worst_deviation(testing::table_of_out(geometry, t.out), want.out,
                                            eager.out, AccuracyRule::of_out(geometry));
  const auto lse = testing::worst_deviation(testing::table_of_lse(geometry, t.lse), want.lse,
                                            eager.lse, AccuracyRule::of_lse(geometry));
  EXPECT_TRUE(out.within()) << recipe.block << " out: " << out.text();
  EXPECT_TRUE(lse.within()) << recipe.block << " lse: " << lse.text();
}

TEST_P(FormulaRecipesAttend, WithinTheAccuracyRule) {
  for (const Lengths lengths : {Lengths{130, 130}, Lengths{70, 200}}) {
    const Recipes recipes(lengths);
    for (const Recipe& recipe : recipes.all()) expect_accurate(recipe, lengths, GetParam());
  }
}
INSTANTIATE_TEST_SUITE_P(Types, FormulaRecipesAttend,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& type) { return std::string(name(type.param)); });

}  // namespace
}  // namespace tilefold
