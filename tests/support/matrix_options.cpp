#include "support/matrix_options.hpp"

namespace tilefold::testing {

namespace {

using F = Feature;
using Options = std::vector<MatrixOption>;

void add_types(Options& all) {
  for (const DType type :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e5m2})
    all.push_back({std::string("dtype: ") + name(type), {.query_dtype = type}});
  for (const DType query : {DType::f16, DType::bf16})
    for (const DType cache : {DType::e4m3, DType::e5m2, DType::i8})
      all.push_back({std::string("dtype: ") + name(query) + " over " + name(cache),
                     {.query_dtype = query, .cache_dtype = cache}});
  all.push_back({"dtype: out of another type", {.features = {F::other_out_type}}});
  const auto descaled = [&](const char* option, Granularity per, KeyForm keys) {
    all.push_back(
        {option,
         {.query_dtype = DType::bf16, .cache_dtype = DType::e4m3, .keys = keys, .descale = per}});
  };
  descaled("descale: per tensor", Granularity::tensor, KeyForm::dense);
  descaled("descale: per head", Granularity::head, KeyForm::dense);
  descaled("descale: per token", Granularity::token, KeyForm::dense);
  descaled("descale: per token, paged", Granularity::token, KeyForm::paged);
  descaled("descale: per page", Granularity::page, KeyForm::paged);
}

void add_shapes(Options& all) {
  for (const int dim : {1, 8, 32, 37, 64, 80, 96, 128, 192, 256, 320, 576})
    all.push_back({"head dimension: " + std::to_string(dim), {.head_dim = dim}});
  all.push_back({"head dimension: 192, values 128", {.head_dim = 192, .value_dim = 128}});
  all.push_back({"head dimension: 64, values 128", {.head_dim = 64, .value_dim = 128}});
  all.push_back({"heads: grouped", {.features = {F::grouped_heads}}});
  all.push_back(
      {"value: view of key", {.features = {F::view_of_key}, .head_dim = 128, .value_dim = 96}});
  all.push_back({"lengths: few rows", {.features = {F::few_rows}}});
  all.push_back({"lengths: few rows, partial output", {.features = {F::few_rows, F::partial}}});
  all.push_back({"lengths: Sk < Sq", {.features = {F::fewer_keys_than_queries}}});
  all.push_back(
      {"lengths: empty sequences",
       {.features = {F::uneven_lengths, F::empty_sequences, F::lse}, .keys = KeyForm::ragged}});
  all.push_back({"lengths: keys split", {.features = {F::one_long_row, F::lse}}});
  all.push_back({"strides: padded", {.features = {F::padded_rows}}});
  all.push_back({"strides: off 16 bytes", {.features = {F::odd_strides}}});
}

void add_layouts(Options& all) {
  const auto add = [&](const char* option, Features features, KeyForm keys,
                       std::optional<int> page_size = {}) {
    all.push_back({option, {.features = features, .page_size = page_size, .keys = keys}});
  };
  add("layout: dense", {}, KeyForm::dense);
  add("layout: dense, lengths given", {F::uneven_lengths, F::query_lengths, F::key_lengths},
      KeyForm::dense);
  add("layout: ragged", {F::uneven_lengths}, KeyForm::ragged);
  add("layout: ragged, rows of nobody", {F::uneven_lengths, F::slack, F::lse}, KeyForm::ragged);
  add("layout: ragged query, dense keys", {F::uneven_lengths, F::ragged_query}, KeyForm::dense);
  add("layout: paged NHD, table", {F::uneven_lengths}, KeyForm::paged);
  add("layout: paged HND, table", {F::uneven_lengths, F::pages_hnd}, KeyForm::paged);
  add("layout: paged, list", {F::uneven_lengths, F::page_list}, KeyForm::paged);
  add("layout: paged, ragged query", {F::uneven_lengths, F::ragged_query}, KeyForm::paged);
  add("layout: paged, page size 1", {F::uneven_lengths}, KeyForm::paged, 1);
  add("layout: paged, page size 5", {F::uneven_lengths}, KeyForm::paged, 5);
  const Features device{F::uneven_lengths, F::query_lengths, F::key_lengths, F::device_lengths};
  add("lengths on device: dense", device, KeyForm::dense);
  add("lengths on device: ragged", {F::uneven_lengths, F::device_lengths}, KeyForm::ragged);
  add("lengths on device: paged, table", {F::uneven_lengths, F::device_lengths}, KeyForm::paged);
  add("lengths on device: paged, list", {F::uneven_lengths, F::device_lengths, F::page_list},
      KeyForm::paged);
}

void add_formulas(Options& all) {
  const auto mask = [&](const char* option, MaskForm form) {
    all.push_back(
        {option, {.features = {F::uneven_lengths}, .keys = KeyForm::ragged, .mask = form}});
  };
  mask("mask: none", MaskForm::none);
  mask("mask: causal", MaskForm::causal);
  mask("mask: window", MaskForm::window);
  mask("mask: causal and window", MaskForm::causal_window);
  mask("mask: causal or prefix", MaskForm::prefix);
  mask("mask: causal and documents", MaskForm::documents);
  mask("mask: and, or, not", MaskForm::mixed);
  mask("mask: code", MaskForm::code);
  all.push_back({"score: scale given", {.features = {F::scale}}});
  all.push_back({"score: softcap", {.features = {F::softcap}}});
  all.push_back({"score: ALiBi", {.features = {F::alibi}}});
  all.push_back({"score: bias", {.features = {F::bias}}});
  all.push_back({"score: softcap, ALiBi and bias", {.features = {F::softcap, F::alibi, F::bias}}});
  all.push_back({"score: options.score of built-ins", {.score = ScoreForm::built_ins}});
  all.push_back({"score: options.score that is code", {.score = ScoreForm::code}});
  const auto positions = [&](const char* option, Features features) {
    all.push_back({option, {.features = features, .mask = MaskForm::causal}});
  };
  positions("positions: shifted", {F::positions});
  positions("positions: striped", {F::positions, F::striped});
  positions("positions: starts of each sequence", {F::positions, F::striped, F::starts});
}

void add_results(Options& all) {
  all.push_back({"sinks", {.features = {F::sinks, F::lse}}});
  all.push_back({"lse", {.features = {F::lse}}});
  all.push_back({"output: partial", {.features = {F::partial}}});
  all.push_back(
      {"batch-invariant",
       {.features = {F::batch_invariant, F::uneven_lengths, F::lse}, .keys = KeyForm::ragged}});
  all.push_back(
      {"batch-invariant: keys split", {.features = {F::batch_invariant, F::one_long_row}}});
  all.push_back({"values: as large as 64", {.features = {F::huge_values}, .head_dim = 64}});
  all.push_back({"values: NaN in a visible input", {.features = {F::nan_input}}});
}

}  // namespace

std::vector<MatrixOption> matrix_options() {
  Options all;
  add_types(all);
  add_shapes(all);
  add_layouts(all);
  add_formulas(all);
  add_results(all);
  return all;
}

}  // namespace tilefold::testing
