// What a random problem must have, for tables of options: everything else of it is plain.
//
//   GeneratorLimits limits;
//   limits.demand = Demand{.features = {Feature::softcap}, .keys = KeyForm::paged};
//
// Plain is: f16 or bf16 over itself, head dimension 64 or 128, dense contiguous tensors of equal
// lengths, Sq <= Sk, no mask or a causal one, no score change.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "tilefold/problem.hpp"

namespace tilefold::testing {

/// What a problem has or has not.
enum class Feature {
  huge_values,
  nan_input,
  own_value_dim,
  view_of_key,
  uneven_lengths,
  fewer_keys_than_queries,
  empty_sequences,
  few_rows,      // 1 to 3 queries: few outputs a head
  one_long_row,  // one query over 6000 keys: its keys are split
  grouped_heads,
  ragged_query,
  page_list,
  pages_hnd,
  query_lengths,
  key_lengths,
  slack,
  padded_rows,  // strides of multiples of 16 elements
  odd_strides,  // of any number of elements, and pointers off 16 bytes
  positions,
  striped,
  starts,
  scale,
  softcap,
  alibi,
  bias,
  sinks,
  lse,
  partial,
  batch_invariant,
  other_out_type,
  device_lengths,  // CUDA: lengths, tables and starts are on the device
};

class Features {
 public:
  Features() = default;
  Features(std::initializer_list<Feature> features) {
    for (const Feature f : features) bits_ |= std::uint64_t{1} << int(f);
  }
  bool has(Feature f) const { return (bits_ >> int(f) & 1) != 0; }

 private:
  std::uint64_t bits_ = 0;
};

enum class KeyForm { dense, ragged, paged };
enum class MaskForm {
  any_range,
  none,
  causal,
  window,
  causal_window,
  prefix,
  documents,
  mixed,
  code
};
enum class ScoreForm { none, built_ins, code };

struct Demand {
  Features features{};
  std::optional<DType> query_dtype{}, cache_dtype{};
  std::optional<int> head_dim{}, value_dim{}, page_size{};
  KeyForm keys = KeyForm::dense;
  MaskForm mask = MaskForm::any_range;
  ScoreForm score = ScoreForm::none;
  std::optional<Granularity> descale{};  // of fp8 tensors: key and value, and an fp8 query
};

}  // namespace tilefold::testing
