// Reads every public formula header on the device: nvcc compiles it ahead of time, NVRTC from
// memory.
//
// A kernel for each number type that a device reads formulas with, and one that reads a formula as
// data. One thread an element;
// nothing here is run: that it compiles, without a standard or toolkit header, is the test.
#include "tilefold/fold.hpp"
#include "tilefold/score/compose.hpp"
#include "tilefold/score/interpreter.hpp"

namespace tilefold::score {

// One struct with every kind of mask, so that && || ! and the lookups are all instantiated.
struct Masks {
  Causal causal;
  Window window;
  Prefix prefix;
  Document document;
  Everything everything;
  template <class N> TILEFOLD_HD auto keep(N q, N k, Place at) const {
    return ((causal && window) || (prefix && !document) || (everything && document)).keep(q, k, at);
  }
};
static_assert(MaskFunctor<Masks>);
static_assert(MaskFunctor<Causal> && MaskFunctor<Window> && MaskFunctor<Prefix>);
static_assert(ChangeFunctor<SoftCap> && ChangeFunctor<Alibi> && ChangeFunctor<AdditiveBias>);
static_assert(!MaskFunctor<SoftCap> && !ChangeFunctor<Causal>);

}  // namespace tilefold::score

namespace score = tilefold::score;

// scores[8 * thread + i], i < 8: a fragment's elements share a base and differ by a constant.
extern "C" __global__ void elements(score::Masks masks, score::Place place, int key_first,
                                    float* scores) {
  const int query = int(blockIdx.x);
  const score::Position base(key_first + 8 * int(threadIdx.x));
  for (int i = 0; i < 8; ++i) {
    const score::Position key = base + score::Position(0, i);
    if (!score::decided(masks.keep(score::Position(query), key, place)))
      scores[8 * threadIdx.x + i] = -score::infinity<float>();
  }
}

// answers[key tile]: what the masks say of 64 queries and 64 keys.
extern "C" __global__ void tiles(score::Masks masks, score::Place place, int query_first,
                                 signed char* answers) {
  const int tile = int(blockIdx.x * blockDim.x + threadIdx.x);
  const score::Interval queries(query_first, query_first + 63);
  const score::Interval keys(64 * tile, 64 * tile + 63);
  const score::Interval folded = score::floor_mod(score::floor_div(keys, 2) * keys, 7);
  answers[tile] = (masks.keep(queries, keys, place) && folded <= queries).value;
}

// scores and slopes [query, key] of one head; parts hold a (max, sum) a thread.
extern "C" __global__ void changes(score::SoftCap cap, score::Alibi alibi, score::AdditiveBias bias,
                                   score::Place place, float* scores, float* slopes,
                                   tilefold::fold::Part<float>* parts) {
  using Dual = score::Dual<float>;
  const auto chained = score::chain(score::chain(cap, alibi), bias);
  const int query = int(blockIdx.x), key = int(threadIdx.x);
  const int element = query * place.key_length + key;
  const score::Position q(query), k(0, key);
  const float value = chained.change(scores[element], q, k, place);
  const Dual dual = chained.change(Dual::variable(scores[element]), q, k, place);
  scores[element] = value + score::log(score::exp(score::abs(dual))).value;
  slopes[element] = dual.slope;

  tilefold::fold::Weights<float> weights;
  auto part = tilefold::fold::join(parts[key], tilefold::fold::from_lse(value), weights);
  part.sum += tilefold::fold::log_sum(part) * weights.left;
  parts[key] = part;
}

// scores [query, key] of one head, and what the mask says of each query's keys.
extern "C" __global__ void interpreted(score::InstructionList mask, score::InstructionList change,
                                       score::Place place, float* scores, signed char* answers) {
  const int query = int(blockIdx.x), key = int(threadIdx.x);
  float& s = scores[query * place.key_length + key];
  const auto at = score::Point<int>::of(query, key, s, place);
  s = score::interpreted<int>(mask, at).truth ? score::interpreted<int>(change, at).real
                                              : -score::infinity<float>();
  const score::Interval keys(0, place.key_length - 1);
  const auto row = score::Point<score::Interval>::of(query, keys, score::Span(0.0f), place);
  if (key == 0) answers[query] = score::interpreted<score::Interval>(mask, row).truth.value;
}
