// The operations of handed cases that compute attention, through the public API.
#include "support/case_operations.hpp"

#include <fmt/core.h>

#include <cmath>

#include "core/geometry.hpp"
#include "reference/attention.hpp"
#include "support/device_run.hpp"
#include "support/formula_as_bias.hpp"
#include "tilefold/attention.hpp"

namespace tilefold::testing {

namespace {

bool untouched(const Tensors& tensors) {
  for (const TensorView& output : {TensorView(tensors.out), TensorView(tensors.lse)})
    for (const unsigned char byte : packed_bytes(output))
      if (byte != poison) return false;
  return true;
}

/// Runs, or only plans, on the backend that is asked for. On CUDA code becomes data. Errors pass
/// on, once it is sure that nothing was written.
void run_problem(const CaseRun& run, CaseProblem& drawn) {
  Problem& problem = drawn.problem;
  problem.options.backend = run.how.backend;
  if (run.how.formulas == Formulas::as_data)
    run.log.formula_as_bias |= give_formulas_as_bias(drawn);
  for (const OutputView& output : {problem.tensors.out, problem.tensors.lse})
    if (!output.empty()) drawn.memory.buffer_of(output).poison_all();
  ++run.log.problems;
  try {
    if (run.how.execution == Execution::plan) {
      run.log.planned_kernel = plan_where_it_runs(problem).kernel();
      run.compare.expect_no_numbers();
    } else {
      compute(problem);
    }
  } catch (const Error&) {
    if (!untouched(problem.tensors)) run.compare.fail("was refused after something was written");
    throw;
  }
}

CaseArray part_of(const CaseArray& array, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = begin; row < end; ++row) rows.push_back(row);
  return rows_of(array, rows);
}

void append(CaseArray& all, const CaseArray& part) {
  if (all.shape.empty()) all.shape = part.shape, all.shape[0] = 0;
  all.shape[0] += part.shape[0];
  all.data.insert(all.data.end(), part.data.begin(), part.data.end());
}

DType state_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

/// A problem of the same case that gives a part: float32 out and lse, no sinks.
CaseProblem partial_of(const CaseRun& run, const HandedCase& c) {
  CaseProblem part = attention_problem(c, run.dtype);
  part.problem.options.output = OutputKind::partial;
  part.problem.tensors.sinks = {};
  allocate_outputs(part, state_dtype(run.dtype),
                   part.problem.tensors.out.dim(part.problem.tensors.out.rank() - 1));
  return part;
}

/// Without sinks, and with them joined by merge(): both ways to the same result.
void check_sink_as_part(const CaseRun& run) {
  CaseProblem part = partial_of(run, run.c);
  run_problem(run, part);
  const Tensors& t = part.problem.tensors;
  run.compare.check_array("lse_no_sink", lse_array(t.lse), run.c.expected.at("lse_no_sink"));
  CaseProblem whole = attention_problem(run.c, run.dtype);
  const PartialResult parts[] = {{t.out, t.lse}};
  merge(parts, whole.problem.tensors.out, whole.problem.tensors.lse, whole.problem.tensors.sinks);
  run.compare.check(out_array(whole.problem.tensors.out), lse_array(whole.problem.tensors.lse));
}

void check_neighbours(const CaseRun& run);

void run_attention(const CaseRun& run) {
  CaseProblem drawn = attention_problem(run.c, run.dtype);
  run_problem(run, drawn);
  run.compare.check(out_array(drawn.problem.tensors.out), lse_array(drawn.problem.tensors.lse));
  if (run.c.expected.count("lse_no_sink")) check_sink_as_part(run);
  if (run.c.tables.count("neighbours_q_k")) check_neighbours(run);
}

/// Batch-invariant mode: the first row's bits with 0, 1, ... neighbours in the batch.
void check_neighbours(const CaseRun& run) {
  const auto& neighbours = run.c.tables.at("neighbours_q_k");
  std::vector<std::vector<unsigned char>> bits;
  for (std::size_t count = 0; count <= neighbours.size(); ++count) {
    HandedCase batch = run.c;
    CaseArray &q = batch.inputs["q"], &k = batch.inputs["k"], &v = batch.inputs["v"];
    const auto rows = [](const CaseArray& array) { return double(array.shape[0]); };
    const std::int64_t own = q.shape[0];
    batch.lists["cu_seqlens_q"] = {0, rows(q)};
    batch.lists["cu_seqlens_k"] = {0, rows(k)};
    for (std::size_t n = 0; n < count; ++n) {
      const auto drawn = [&](const CaseArray& like, double length, std::uint64_t seed) {
        CaseArray more;
        more.shape = like.shape;
        more.shape[0] = std::int64_t(length);
        more.data = generate(more.shape[0] * more.shape[1] * more.shape[2], seed, 1, -6);
        return more;
      };
      append(q, drawn(q, neighbours[n][0], 5001));
      append(k, drawn(k, neighbours[n][1], 5002));
      append(v, drawn(v, neighbours[n][1], 5003));
      batch.lists["cu_seqlens_q"].push_back(rows(q));
      batch.lists["cu_seqlens_k"].push_back(rows(k));
    }
    CaseProblem problem = attention_problem(batch, run.dtype);
    problem.problem.options.reproducibility = Reproducibility::batch_invariant;
    run_problem(run, problem);
    const Tensors& t = problem.problem.tensors;
    bits.push_back(packed_bytes(t.out.slice(0, 0, own)));
    const auto lse = packed_bytes(t.lse.slice(1, 0, own));
    bits.back().insert(bits.back().end(), lse.begin(), lse.end());
    if (bits.back() != bits.front())
      run.compare.fail(fmt::format("with {} neighbours the row's bits change", count));
  }
}

/// Only the layout of lse is asked for: [heads, total], packed, as the reference has it.
void run_lse_layout(const CaseRun& run) {
  CaseProblem drawn = attention_problem(run.c, run.dtype);
  run_problem(run, drawn);
  const CaseArray lse = lse_array(drawn.problem.tensors.lse);
  if (std::vector<double>(lse.shape.begin(), lse.shape.end()) !=
      run.c.expected.at("lse_shape").data)
    run.compare.fail("lse has another shape");
  const core::Geometry g = core::resolve(drawn.problem);
  const reference::Result want =
      reference::forward({g, drawn.problem.tensors, drawn.problem.options});
  std::vector<double> numbers;
  for (int b = 0; b < g.batch; ++b)
    for (int row = 0; row < want.lse.rows(b); ++row)
      for (int head = 0; head < g.query_heads; ++head)
        numbers.push_back(*want.lse.at(b, row, head));
  run.compare.check_values("lse", lse.data, numbers, 1e-5);
}

/// Must be refused with an Error that tells of the mistake, with nothing written.
void run_refusal(const CaseRun& run) {
  CaseProblem drawn = attention_problem(run.c, run.dtype);
  if (run.c.texts.count("k_device") && run.c.texts.at("k_device") != "cpu") {
    TensorView& key = drawn.problem.tensors.key;
    // On CUDA the query is on device 0.
    const Device other = Device::cuda(run.how.backend == Backend::cuda ? 1 : 0);
    key = TensorView(key.data(), key.dtype(), key.shape(), key.strides(), other);
  }
  try {
    run_problem(run, drawn);
    run.compare.fail("was not refused");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported)
      run.compare.fail(fmt::format("was refused for another reason: {}", error.what()));
  }
}

/// Each chunk's queries over the pages that hold the keys so far; the rest of the pages is NaN.
void run_chunked_prefill(const CaseRun& run) {
  HandedCase chunk = run.c;
  const std::int64_t total = run.c.inputs.at("k").shape[0];
  const std::int64_t page_size = std::int64_t(run.c.numbers.at("page_size"));
  const std::int64_t pages = (total + page_size - 1) / page_size;
  const auto pool_of = [&](const CaseArray& rows, std::int64_t written) {
    CaseArray pool;
    const std::int64_t width = rows.shape[1] * rows.shape[2];
    pool.shape = {pages, page_size, rows.shape[1], rows.shape[2]};
    pool.data.assign(std::size_t(pages * page_size * width), std::nan(""));
    for (std::int64_t i = 0; i < written * width; ++i) {  // pages in falling order
      const std::int64_t row = i / width, page = pages - 1 - row / page_size;
      pool.data[std::size_t((page * page_size + row % page_size) * width + i % width)] =
          rows.data[std::size_t(i)];
    }
    return pool;
  };
  auto& table = chunk.tables["block_table"].emplace_back();
  for (std::int64_t p = 0; p < pages; ++p) table.push_back(double(pages - 1 - p));
  CaseArray out, lse;
  std::int64_t begin = 0;
  for (const double length : run.c.lists.at("chunks")) {
    const std::int64_t end = begin + std::int64_t(length);
    chunk.inputs["q"] = part_of(run.c.inputs.at("q"), begin, end);
    chunk.inputs["k_pages"] = pool_of(run.c.inputs.at("k"), end);
    chunk.inputs["v_pages"] = pool_of(run.c.inputs.at("v"), end);
    chunk.lists["seq_lens"] = {double(end)};
    chunk.lists["cu_seqlens_q"] = {0, length};
    CaseProblem drawn = attention_problem(chunk, run.dtype);
    run_problem(run, drawn);
    append(out, out_array(drawn.problem.tensors.out));
    append(lse, lse_array(drawn.problem.tensors.lse));
    begin = end;
  }
  run.compare.check(out, lse);
}

/// Codes under a 16-bit query.
void run_fp8_cache(const CaseRun& run) {
  CaseProblem drawn;
  Tensors& t = drawn.problem.tensors;
  t.query = place(drawn.memory, run.c.inputs.at("q"), run.dtype, LeadingAxis::batch);
  const auto codes = [&](const char* name) {
    const OutputView bytes =
        place(drawn.memory, run.c.inputs.at(name), DType::u8, LeadingAxis::batch);
    return TensorView(bytes.data(), DType::e4m3, bytes.shape(), bytes.strides());
  };
  const auto scale = [&](const char* name) {
    const std::vector<double>& values = run.c.lists.at(name);
    const OutputView tensor = drawn.memory.allocate(DType::f32, {std::int64_t(values.size())});
    for (std::size_t i = 0; i < values.size(); ++i) store(tensor, std::int64_t(i), values[i]);
    return Descale{tensor, values.size() == 1 ? Granularity::tensor : Granularity::head};
  };
  t.key = codes("k_codes");
  t.value = codes("v_codes");
  t.key_descale = scale("k_scale");
  t.value_descale = scale("v_scale");
  drawn.problem.options.mask = causal();
  allocate_outputs(drawn, run.dtype, t.value.dim(3));
  run_problem(run, drawn);
  run.compare.check(out_array(t.out), lse_array(t.lse));
}

/// The shared prefix once for all queries, each suffix alone, joined by merge().
void run_cascade(const CaseRun& run) {
  HandedCase prefix = run.c, suffix = run.c;
  const CaseArray& q = run.c.inputs.at("q");
  prefix.numbers["causal"] = 0;
  prefix.inputs["k"] = run.c.inputs.at("k_prefix");
  prefix.inputs["v"] = run.c.inputs.at("v_prefix");
  prefix.lists["cu_seqlens_q"] = {0, double(q.shape[0])};
  prefix.lists["cu_seqlens_k"] = {0, double(prefix.inputs["k"].shape[0])};
  suffix.inputs["k"] = run.c.inputs.at("k_suffix");
  suffix.inputs["v"] = run.c.inputs.at("v_suffix");
  const auto borders = [](const std::vector<double>& lengths) {
    std::vector<double> sums{0};
    for (const double length : lengths) sums.push_back(sums.back() + length);
    return sums;
  };
  suffix.lists["cu_seqlens_q"] = borders(run.c.lists.at("q_lens"));
  suffix.lists["cu_seqlens_k"] = borders(run.c.lists.at("suffix_lens"));
  CaseProblem first = partial_of(run, prefix), second = partial_of(run, suffix);
  run_problem(run, first);
  run_problem(run, second);
  CaseProblem whole = attention_problem(suffix, run.dtype);
  const Tensors& t = whole.problem.tensors;
  const PartialResult parts[] = {{first.problem.tensors.out, first.problem.tensors.lse},
                                 {second.problem.tensors.out, second.problem.tensors.lse}};
  merge(parts, t.out, t.lse);
  run.compare.check(out_array(t.out), lse_array(t.lse));
}

/// a[t, h, :] times w[h, ...]: over its last axis (transposed) or its middle one.
CaseArray per_head_product(const CaseArray& a, const CaseArray& w, bool over_last) {
  const std::int64_t rows = a.shape[0], heads = a.shape[1], m = w.shape[1], n = w.shape[2];
  const std::int64_t results = over_last ? m : n, terms = over_last ? n : m;
  CaseArray product;
  product.shape = {rows, heads, results};
  for (std::int64_t t = 0; t < rows * heads; ++t)
    for (std::int64_t r = 0; r < results; ++r) {
      double sum = 0;
      for (std::int64_t i = 0; i < terms; ++i) {
        const std::int64_t at = (t % heads * m + (over_last ? r : i)) * n + (over_last ? i : r);
        sum += a.data[std::size_t(t * terms + i)] * w.data[std::size_t(at)];
      }
      product.data.push_back(sum);
    }
  return product;
}

CaseArray joined_columns(const CaseArray& a, const CaseArray& b) {
  CaseArray joined;
  joined.shape = {a.shape[0], a.shape[1], a.shape[2] + b.shape[2]};
  for (std::int64_t row = 0; row < a.shape[0] * a.shape[1]; ++row) {
    const auto part = [&](const CaseArray& x) {
      const auto first = x.data.begin() + row * x.shape[2];
      joined.data.insert(joined.data.end(), first, first + x.shape[2]);
    };
    part(a);
    part(b);
  }
  return joined;
}

/// Latent attention, absorbed: the queries in latent space, the value a view of the latent key.
void run_latent(const CaseRun& run) {
  const auto input = [&](const char* name) -> const CaseArray& { return run.c.inputs.at(name); };
  CaseProblem drawn;
  Tensors& t = drawn.problem.tensors;
  const CaseArray query =
      joined_columns(per_head_product(input("q_nope"), input("W_uk"), false), input("q_rope"));
  const CaseArray key = joined_columns(input("c_kv"), input("k_rope"));
  t.query = place(drawn.memory, query, run.dtype, LeadingAxis::batch);
  t.key = place(drawn.memory, key, run.dtype, LeadingAxis::batch);
  drawn.problem.options.value_source = ValueSource::view_of_key;
  drawn.problem.options.value_dim = input("c_kv").shape[2];
  drawn.problem.options.scale = run.c.numbers.at("scale");
  drawn.problem.options.mask = causal();
  allocate_outputs(drawn, run.dtype, drawn.problem.options.value_dim);
  run_problem(run, drawn);
  run.compare.check(per_head_product(out_array(t.out), input("W_uv"), true), lse_array(t.lse));
}

/// Each rank's queries against each rank's keys, as partial results of affine positions.
void run_ring(const CaseRun& run) {
  const auto& ranks = run.c.tables.at("positions_of_rank");
  const auto affine = [](const std::vector<double>& positions) {
    return Affine{std::int64_t(positions[0]),
                  positions.size() > 1 ? std::int64_t(positions[1] - positions[0]) : 1};
  };
  const auto shard = [&](const char* name, const std::vector<double>& positions) {
    return rows_of(run.c.inputs.at(name),
                   std::vector<std::int64_t>(positions.begin(), positions.end()));
  };
  CaseArray out, lse;
  for (const auto& own : ranks) {
    HandedCase step = run.c;
    std::vector<CaseProblem> problems;
    std::vector<PartialResult> parts;
    step.inputs["q"] = shard("q", own);
    for (const auto& other : ranks) {
      step.inputs["k"] = shard("k", other);
      step.inputs["v"] = shard("v", other);
      problems.push_back(partial_of(run, step));
      CaseProblem& problem = problems.back();
      problem.problem.options.positions = Positions{affine(own), affine(other), 0};
      run_problem(run, problem);
      parts.push_back({problem.problem.tensors.out, problem.problem.tensors.lse});
    }
    CaseProblem whole = attention_problem(step, run.dtype);
    const Tensors& t = whole.problem.tensors;
    merge(parts, t.out, t.lse);
    append(out, out_array(t.out));
    append(lse, lse_array(t.lse));
  }
  std::vector<std::int64_t> order;
  for (const auto& rank : ranks) order.insert(order.end(), rank.begin(), rank.end());
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) inverse[std::size_t(order[i])] = std::int64_t(i);
  run.compare.check(rows_of(out, inverse), rows_of(lse, inverse));
}

/// A plan with a custom mask leaves no trace in the next plan.
void run_two_plans(const CaseRun& run) {
  CaseProblem drawn = attention_problem(run.c, run.dtype);
  drawn.problem.options.mask = run.how.formulas == Formulas::as_data
                                   ? !prefix(1)
                                   : mask([](auto, auto k, auto) { return k != decltype(k)(0); });
  run_problem(run, drawn);
  drawn.problem.options.mask = causal();
  run_problem(run, drawn);
  const Tensors& t = drawn.problem.tensors;
  run.compare.check_array("out", out_array(t.out), run.c.expected.at("second_call.out"));
  run.compare.check_array("lse", lse_array(t.lse), run.c.expected.at("second_call.lse"));
}

/// Each replay of the case as a plan of its own: the CPU has no graphs to capture.
void run_replays(const CaseRun& run) {
  for (int i = 0; run.c.expected.count(fmt::format("replays.{}.out", i)); ++i) {
    const std::string name = fmt::format("replays.{}.", i);
    HandedCase replay = run.c;
    replay.lists["seq_lens"] = run.c.lists.at(name + "seq_lens");
    replay.tables["block_table"] = run.c.tables.at(name + "block_table");
    CaseProblem drawn = attention_problem(replay, run.dtype);
    run_problem(run, drawn);
    const Tensors& t = drawn.problem.tensors;
    run.compare.check_array("out", out_array(t.out), run.c.expected.at(name + "out"));
    run.compare.check_array("lse", lse_array(t.lse), run.c.expected.at(name + "lse"));
  }
}

using Run = void (*)(const CaseRun&);

/// Why an operation has no function here.
std::string reason_against(const HandedCase& c) {
  const std::string& op = c.op;
  if (op == "attention_backward") return "no backend computes gradients yet";
  if (op == "rope" || op == "chunked_prefill") return "rotary positions do not exist yet";
  if (op == "kv_append" || op == "kv_cache" || op == "window_evict" || op == "kv_offload")
    return "the KV cache does not exist yet";
  if (op == "kv_quant" || op == "attention_int8_kv") return "integer caches do not exist yet";
  if (op == "scheduler") return "the scheduler does not exist yet";
  if (op == "split_plan") return "a property of a GPU's splits in words";
  if (op == "stream_test") return "needs a CUDA stream";
  if (op == "attention_dropout") return "dropout is not offered";
  if (op == "ring_attention") return "a property in words, tested by hand";
  return "no runner for this operation";
}

Run attention_operation(const HandedCase& c) {
  const std::string& op = c.op;
  if (op == "attention" || op == "paged_attention") return run_attention;
  if (op == "chunked_prefill" && !c.has("theta")) return run_chunked_prefill;
  if (op == "attention_fp8_kv") return run_fp8_cache;
  if (op == "cascade") return run_cascade;
  if (op == "mla") return run_latent;
  if (op == "ring_attention" && c.expected.count("out")) return run_ring;
  if (op == "attention_plan") return run_two_plans;
  if (op == "paged_attention_graph") return run_replays;
  return nullptr;
}

}  // namespace

CaseOperation operation_of(const HandedCase& c) {
  const bool attention = c.op == "attention" || c.op == "paged_attention";
  if ((attention && c.expected_texts.count("error")) || c.op == "device_guard")
    return {run_refusal, "", Dtypes::one};
  if (c.op == "attention" && c.expected.count("lse_shape"))
    return {run_lse_layout, "", Dtypes::one};
  if (const Run run = attention_operation(c)) return {run, "", Dtypes::stated};
  if (c.op == "merge") return {run_merge, "", Dtypes::stated};
  if (c.op == "fp8_encode") return {run_fp8_encode, "", Dtypes::one};
  if (c.op == "alibi_slopes") return {run_alibi_slopes, "", Dtypes::one};
  if (c.op == "index_arith") return {run_index_arithmetic, "", Dtypes::one};
  return {nullptr, reason_against(c), Dtypes::one};
}

}  // namespace tilefold::testing
