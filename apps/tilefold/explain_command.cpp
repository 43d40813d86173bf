// `tilefold explain`: the plan of a problem, without its tensors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "command.hpp"
#include "option_checks.hpp"
#include "problem_arguments.hpp"
#include "support/device_description.hpp"
#include "tilefold/attention.hpp"

namespace tilefold::cli {

namespace {

struct Arguments {
  std::int64_t batch = 1, query_heads = 8, kv_heads = 0, query_length = 1024, key_length = 0;
  std::int64_t head_dim = 64, value_dim = 0, pages = 0, page_size = 16;
  std::string dtype = "bf16", kv_dtype, out_dtype;
  bool view_of_key = false, lse = false, device_lengths = false, json = false;
  ProblemArguments problem;
};

bool paged(const Tensors& t) { return t.pages.present(); }

std::int64_t last_border(const TensorView& borders) {
  const std::int64_t count = borders.element_count();
  // Borders that are none are left to plan(), which says why.
  if (count == 0 || !is_index(borders.dtype()) || borders.rank() != 1) return 0;
  return std::max<std::int64_t>(0, borders.dtype() == DType::i64
                                       ? borders.as<std::int64_t>()[count - 1]
                                       : borders.as<std::int32_t>()[count - 1]);
}

// The shape of the pool, or of dense or ragged keys.
Extents key_shape(const Arguments& a, const Tensors& t, std::int64_t dim) {
  const std::int64_t heads = a.kv_heads > 0 ? a.kv_heads : a.query_heads;
  if (paged(t)) {
    if (a.problem.page_layout == "hnd") return {a.pages, heads, a.page_size, dim};
    return {a.pages, a.page_size, heads, dim};
  }
  if (t.cu_seqlens_k) return {last_border(t.cu_seqlens_k), heads, dim};
  return {a.batch, a.key_length > 0 ? a.key_length : a.query_length, heads, dim};
}

// Options need the query's shape, which needs the borders: the borders are read first.
TensorView borders(const std::string& text, const char* option, TensorStore& store) {
  return text.empty() ? TensorView() : store.indices(text, option);
}

// An option that would change nothing is a mistake of the caller's.
void refuse_idle_options(const CLI::App& command, const ProblemArguments& p) {
  const auto refuse = [&](const char* option, const char* why) {
    if (command.count(option) != 0) throw UsageError(fmt::format("{} {}", option, why));
  };
  const bool pages = !p.page_table.empty() || !p.page_indptr.empty();
  for (const char* option : {"--pages", "--page-size"})
    if (!pages) refuse(option, "needs --page-table or --page-indptr");
  if (!p.cu_seqlens_q.empty()) {
    refuse("--query-length", "does not go with --cu-seqlens-q, which holds the lengths");
    if (pages || !p.cu_seqlens_k.empty())
      refuse("--batch", "does not go with --cu-seqlens-q, which holds the sequences");
  }
  if (pages) refuse("--key-length", "does not go with pages, whose table holds the lengths");
  if (p.backend != "cuda")
    refuse("--device-lengths", "needs --backend cuda: lengths on the device are for its kernels");
  if (!pages && p.cu_seqlens_q.empty() && p.cu_seqlens_k.empty() && p.query_lengths.empty() &&
      p.key_lengths.empty())
    refuse("--device-lengths", "needs lengths, borders or a page table");
  if (!p.cu_seqlens_k.empty())
    refuse("--key-length", "does not go with --cu-seqlens-k, which holds the lengths");
}

void explain(const Arguments& given) {
  Arguments a = given;
  TensorStore store;
  Problem problem;
  Tensors& t = problem.tensors;
  const DType dtype = dtype_named(a.dtype, "--dtype");
  const DType kv_dtype = a.kv_dtype.empty() ? dtype : dtype_named(a.kv_dtype, "--kv-dtype");
  t.cu_seqlens_q = borders(a.problem.cu_seqlens_q, "--cu-seqlens-q", store);
  t.cu_seqlens_k = borders(a.problem.cu_seqlens_k, "--cu-seqlens-k", store);
  t.query =
      t.cu_seqlens_q
          ? TensorView(nullptr, dtype, {last_border(t.cu_seqlens_q), a.query_heads, a.head_dim})
          : TensorView(nullptr, dtype, {a.batch, a.query_length, a.query_heads, a.head_dim});
  const std::int64_t value_dim = a.value_dim > 0 ? a.value_dim : a.head_dim;
  if (a.view_of_key) a.problem.value_dim = value_dim;
  a.problem.apply(problem, store);
  t.key = TensorView(nullptr, kv_dtype, key_shape(a, t, a.head_dim));
  if (!a.view_of_key) t.value = TensorView(nullptr, kv_dtype, key_shape(a, t, value_dim));
  const OutputDescription d = describe_outputs(problem, a.out_dtype);
  t.out = OutputView(nullptr, d.out_dtype, d.out_shape);
  if (a.lse || a.problem.partial) t.lse = OutputView(nullptr, d.lse_dtype, d.lse_shape);
  const auto home = a.device_lengths ? testing::LengthHome::device : testing::LengthHome::host;
  const Plan plan = testing::plan_where_it_runs(problem, home);
  fmt::print("{}\n", a.json ? plan.explain_json() : plan.explain());
}

}  // namespace

void add_explain(CLI::App& tool) {
  CLI::App* command = tool.add_subcommand("explain", "The plan of a problem, without its tensors");
  const auto a = std::make_shared<Arguments>();
  const auto count = [&](const char* name, std::int64_t& value, const char* text) {
    command->add_option(name, value, text)->capture_default_str()->check(whole_number(0));
  };
  count("--batch", a->batch, "Sequences");
  count("--query-heads", a->query_heads, "Query heads");
  count("--kv-heads", a->kv_heads, "KV heads; 0: as many as query heads");
  count("--query-length", a->query_length, "Queries a sequence");
  count("--key-length", a->key_length, "Keys a sequence; 0: as many as queries");
  count("--head-dim", a->head_dim, "Head dimension of queries and keys");
  count("--value-dim", a->value_dim, "Head dimension of values; 0: that of keys");
  count("--pages", a->pages, "Pages of the pool, with a page table");
  count("--page-size", a->page_size, "Keys a page");
  command->add_option("--dtype", a->dtype, "Of the queries")->capture_default_str();
  command->add_option("--kv-dtype", a->kv_dtype,
                      "Of keys and values; that of queries unless given");
  command->add_option("--out-dtype", a->out_dtype, "The query's unless given (bf16 for fp8)");
  command->add_flag("--value-view", a->view_of_key,
                    "The value is the first --value-dim columns of the key");
  command->add_flag("--lse", a->lse, "The log-sum-exp is wanted too");
  command->add_flag("--device-lengths", a->device_lengths,
                    "With --backend cuda: lengths and page tables are on the device, and the "
                    "lengths given are their capacities");
  a->problem.add_to(*command);
  command->add_flag("--json", a->json, "Prints one JSON object");
  command->callback([a, command] {
    refuse_idle_options(*command, a->problem);
    explain(*a);
  });
}

}  // namespace tilefold::cli
