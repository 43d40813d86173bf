#include "problem_arguments.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>

#include "command.hpp"
#include "option_checks.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cli {

namespace {

template <class Enum> Enum choice(const std::string& text,
                                  std::initializer_list<std::pair<const char*, Enum>> choices,
                                  const char* option) {
  std::string names;
  for (const auto& [name, value] : choices) {
    if (text == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw UsageError(fmt::format("{} is '{}': it must be one of {}", option, text, names));
}

// Positions and windows are int in formulas.
int as_int(std::int64_t value, const char* option) {
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max())
    throw UsageError(fmt::format("{} holds {}: it must fit 32 bits", option, value));
  return int(value);
}

Mask window_mask(const std::string& text) {
  const auto sides = numbers(text);
  if (!sides || sides->size() > 2)
    throw UsageError(fmt::format("--window is '{}': it must be LEFT or LEFT,RIGHT", text));
  const int left = as_int(sides->front(), "--window");
  return window(left, sides->size() == 2 ? as_int(sides->back(), "--window") : -1);
}

std::int64_t batch_of(const Problem& problem) {
  const Tensors& t = problem.tensors;
  if (t.query.rank() == 4) return t.query.dim(0);
  return t.cu_seqlens_q ? std::max<std::int64_t>(0, t.cu_seqlens_q.element_count() - 1) : 1;
}

Mask prefix_mask(const std::string& text, const Problem& problem, TensorStore& store) {
  const auto given = numbers(text);
  if (given && *std::min_element(given->begin(), given->end()) < 0)
    throw UsageError(fmt::format("--prefix is '{}': lengths must be 0 or more", text));
  const std::int64_t batch = batch_of(problem);
  if (!given || given->size() != 1) {
    const TensorView lengths = store.indices(text, "--prefix");
    if (lengths.rank() == 1 && lengths.dim(0) != batch)
      throw Error(ErrorCode::shape_mismatch,
                  fmt::format("--prefix holds {} lengths: it must hold {}, one a sequence",
                              lengths.dim(0), batch));
    return prefix(lengths);
  }
  const OutputView lengths = store.allocate(DType::i32, {batch});
  for (std::int64_t b = 0; b < batch; ++b)
    lengths.as<std::int32_t>()[b] = as_int(given->front(), "--prefix");
  return prefix(lengths);
}

constexpr std::int64_t most_alibi_heads = std::int64_t{1} << 20;

Positions parse_positions(const std::string& text) {
  const auto v = numbers(text);
  if (!v || v->size() != 5)
    throw UsageError(fmt::format(
        "--positions is '{}': it must be Q_START,Q_STRIDE,K_START,K_STRIDE,OFFSET", text));
  return {{(*v)[0], (*v)[1]}, {(*v)[2], (*v)[3]}, (*v)[4]};
}

void apply_descale(const DescaleArgument& argument, const char* option, Descale& descale,
                   TensorStore& store) {
  if (argument.file.empty()) return;
  descale.scale = store.read(argument.file);
  descale.per = choice<Granularity>(argument.per,
                                    {{"tensor", Granularity::tensor},
                                     {"head", Granularity::head},
                                     {"token", Granularity::token},
                                     {"page", Granularity::page}},
                                    option);
}

void apply_layout(const ProblemArguments& a, Tensors& t, TensorStore& store) {
  const auto fill = [&](const std::string& text, const char* option, TensorView& view) {
    if (!text.empty()) view = store.indices(text, option);
  };
  fill(a.cu_seqlens_q, "--cu-seqlens-q", t.cu_seqlens_q);
  fill(a.cu_seqlens_k, "--cu-seqlens-k", t.cu_seqlens_k);
  fill(a.query_lengths, "--query-lengths", t.query_lengths);
  fill(a.key_lengths, "--key-lengths", t.key_lengths);
  fill(a.query_starts, "--query-starts", t.query_starts);
  fill(a.key_starts, "--key-starts", t.key_starts);
  if (!a.page_table.empty()) t.pages.table = store.read(a.page_table);
  fill(a.page_indptr, "--page-indptr", t.pages.indptr);
  fill(a.page_indices, "--page-indices", t.pages.indices);
  fill(a.last_page_size, "--last-page-size", t.pages.last_page_size);
}

void apply_scores(const ProblemArguments& a, Problem& problem, TensorStore& store) {
  Tensors& t = problem.tensors;
  problem.options.scale = a.scale;
  // 0 is how many configuration files write "no cap".
  if (a.softcap && *a.softcap != 0) problem.options.softcap = a.softcap;
  if (a.alibi == "auto") {
    const std::int64_t heads = t.query.rank() >= 2 ? t.query.dim(t.query.rank() - 2) : 1;
    if (heads > most_alibi_heads)
      throw UsageError(fmt::format("--alibi auto serves at most {} query heads: there are {}",
                                   most_alibi_heads, heads));
    const OutputView slopes = store.allocate(DType::f32, {heads});
    alibi_slopes(int(heads), slopes.as<float>());
    t.alibi_slopes = slopes;
  } else if (!a.alibi.empty()) {
    t.alibi_slopes = store.read(a.alibi);
  }
  if (!a.bias.empty()) t.bias = store.read(a.bias);
  if (!a.sinks.empty()) t.sinks = store.read(a.sinks);
}

/// All masks that are given, and the formula's.
Mask mask_of(const ProblemArguments& a, const Mask& formula, const Problem& problem,
             TensorStore& store) {
  Mask mask;
  if (a.causal) mask = causal();
  if (!a.prefix.empty()) {
    const Mask first = prefix_mask(a.prefix, problem, store);
    mask = a.causal ? mask || first : first;
  }
  const auto restrict_to = [&](const Mask& more) { mask = mask.node() ? mask && more : more; };
  if (!a.window.empty()) restrict_to(window_mask(a.window));
  if (!a.documents.empty()) restrict_to(documents(store.indices(a.documents, "--documents")));
  if (formula.node() != nullptr) restrict_to(formula);
  return mask;
}

}  // namespace

std::optional<std::vector<std::int64_t>> numbers(const std::string& text) {
  std::vector<std::int64_t> values;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc{}) return std::nullopt;
    values.push_back(value);
    if (rest == end) return values;
    if (*rest != ',') return std::nullopt;
    at = rest + 1;
  }
}

OutputView TensorStore::read(const std::string& spec) {
  tensors_.push_back(files::read_tensor(spec));
  return tensors_.back().output();
}

OutputView TensorStore::allocate(DType dtype, const Extents& shape) {
  tensors_.push_back(files::allocate(dtype, shape));
  return tensors_.back().output();
}

TensorView TensorStore::indices(const std::string& text, const char* option) {
  const auto values = numbers(text);
  if (!values) return read(text);
  const OutputView tensor = allocate(DType::i32, {std::int64_t(values->size())});
  for (std::size_t i = 0; i < values->size(); ++i)
    tensor.as<std::int32_t>()[i] = as_int((*values)[i], option);
  return tensor;
}

void ProblemArguments::add_to(CLI::App& command) {
  const auto add = [&](const char* name, auto& value, const char* text, const char* group) {
    return command.add_option(name, value, text)->group(group);
  };
  constexpr const char *masks = "Masks", *scores = "Scores", *layout = "Layout", *run = "Run";
  command.add_flag("--causal", causal, "Key j is visible to query i when j <= i + Sk - Sq")
      ->group(masks);
  add("--window", window, "LEFT[,RIGHT]: keys within these distances; negative is unbounded",
      masks);
  add("--prefix", prefix, "N or a file [B]: with --causal, the first N keys are visible to all",
      masks);
  add("--documents", documents, "Document ids, a file or I,J,...: keys of the own document", masks);
  add("--positions", positions, "Q_START,Q_STRIDE,K_START,K_STRIDE,OFFSET of a shard or chunk",
      masks);
  add("--query-starts", query_starts, "[B], added to the queries' start", masks);
  add("--key-starts", key_starts, "[B], added to the keys' start", masks);
  formulas.add_to(command, masks, scores);
  add("--scale", scale, "1/sqrt(head dimension) unless given", scores);
  add("--softcap", softcap, "cap * tanh(score / cap); 0 is none", scores);
  add("--alibi", alibi, "auto, or a file of slopes [Hq] or [B, Hq]", scores);
  add("--bias", bias, "File [B or 1, Hq or 1, Sq or 1, Sk or 1], added to the scores", scores);
  add("--sinks", sinks, "File [Hq]: one more logit in each row's denominator", scores);
  const auto descale = [&](const char* name, DescaleArgument& argument) {
    CLI::Option* const file =
        add(name, argument.file, "File of float32 factors of the stored values", scores);
    add((std::string(name) + "-per").c_str(), argument.per, "tensor, head, token or page", scores)
        ->check(CLI::IsMember({"tensor", "head", "token", "page"}))
        ->needs(file);
  };
  descale("--query-descale", query_descale);
  descale("--key-descale", key_descale);
  descale("--value-descale", value_descale);
  add("--cu-seqlens-q", cu_seqlens_q, "Ragged queries: borders [B + 1], a file or 0,5,...", layout);
  add("--cu-seqlens-k", cu_seqlens_k, "Ragged keys: borders [B + 1], a file or 0,5,...", layout);
  add("--query-lengths", query_lengths, "[B]: queries that exist, a file or 3,7,...", layout);
  add("--key-lengths", key_lengths, "[B]: keys that exist, a file or 3,7,...", layout);
  add("--page-table", page_table, "File [B, pages a row] int32", layout);
  add("--page-indptr", page_indptr, "[B + 1]: which of --page-indices are a sequence's", layout);
  add("--page-indices", page_indices, "Page ids, a file or 4,0,...", layout);
  add("--last-page-size", last_page_size, "[B]: keys on each last page", layout);
  add("--page-layout", page_layout,
      "nhd (unless given): [page, slot, head, dim]; hnd: [page, head, slot, dim]", layout)
      ->check(CLI::IsMember({"nhd", "hnd"}));
  command.add_flag("--partial", partial, "Output for a merge: float32, with its lse")->group(run);
  command
      .add_flag("--batch-invariant", batch_invariant,
                "A row's bits do not depend on the rest of the batch")
      ->group(run);
  add("--threads", threads, "0 takes all cores", run)->check(whole_number(0, most_threads));
  add("--backend", backend, "auto, cpu or cuda", run)
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
}

void ProblemArguments::apply(Problem& problem, TensorStore& store) const {
  Options& o = problem.options;
  apply_layout(*this, problem.tensors, store);
  apply_scores(*this, problem, store);
  apply_descale(query_descale, "--query-descale-per", problem.tensors.query_descale, store);
  apply_descale(key_descale, "--key-descale-per", problem.tensors.key_descale, store);
  apply_descale(value_descale, "--value-descale-per", problem.tensors.value_descale, store);
  const FormulaArguments::Read formula = formulas.read(store);
  o.score = formula.score;
  o.mask = mask_of(*this, formula.mask, problem, store);
  if (!positions.empty()) o.positions = parse_positions(positions);
  if (!page_layout.empty() && !problem.tensors.pages.present())
    throw UsageError("--page-layout says how pages lie: it needs --page-table or --page-indptr");
  o.page_layout = page_layout == "hnd" ? PageLayout::hnd : PageLayout::nhd;
  if (value_dim != 0) {
    o.value_source = ValueSource::view_of_key;
    o.value_dim = value_dim;
  }
  if (partial) o.output = OutputKind::partial;
  if (batch_invariant) o.reproducibility = Reproducibility::batch_invariant;
  if (threads != 0 && backend == "cuda")
    throw UsageError("--threads is the CPU's: it would change nothing with --backend cuda");
  o.threads = threads;
  o.backend = choice<Backend>(
      backend, {{"auto", Backend::automatic}, {"cpu", Backend::cpu}, {"cuda", Backend::cuda}},
      "--backend");
}

DType dtype_named(const std::string& text, const char* option) {
  const auto dtype = dtype_from_name(text);
  if (!dtype) throw UsageError(fmt::format("{} is '{}': it must name a dtype", option, text));
  return *dtype;
}

OutputDescription describe_outputs(const Problem& problem, const std::string& out_dtype) {
  const TensorView& query = problem.tensors.query;
  const Options& o = problem.options;
  const TensorView& value =
      o.value_source == ValueSource::own ? problem.tensors.value : problem.tensors.key;
  const bool wide = query.dtype() == DType::f64;
  OutputDescription d;
  d.lse_dtype = wide ? DType::f64 : DType::f32;
  if (!out_dtype.empty())
    d.out_dtype = dtype_named(out_dtype, "--out-dtype");
  else if (o.output == OutputKind::partial)
    d.out_dtype = d.lse_dtype;
  else
    d.out_dtype = is_fp8(query.dtype()) ? DType::bf16 : query.dtype();
  // Shapes that are wrong are left to plan(), which says why.
  d.out_shape = query.shape();
  if (query.rank() > 0 && value.rank() > 0)
    d.out_shape[query.rank() - 1] = o.value_source == ValueSource::own
                                        ? value.dim(value.rank() - 1)
                                        : std::max<std::int64_t>(0, o.value_dim);
  if (query.rank() == 4)
    d.lse_shape = {query.dim(0), query.dim(2), query.dim(1)};
  else if (query.rank() == 3)
    d.lse_shape = {query.dim(1), query.dim(0)};
  return d;
}

}  // namespace tilefold::cli
