// Runs a random problem in every way that must agree, and compares.
#include "support/verify.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <ostream>

#include "core/geometry.hpp"
#include "support/accuracy.hpp"
#include "support/device_run.hpp"
#include "support/in_order.hpp"
#include "tilefold/attention.hpp"

namespace tilefold::testing {

namespace {

struct OutputBytes {
  std::vector<unsigned char> out, lse;
  friend bool operator==(const OutputBytes&, const OutputBytes&) = default;
};

OutputBytes outputs_of(const Tensors& tensors) {
  OutputBytes bytes{packed_bytes(tensors.out), {}};
  if (tensors.lse) bytes.lse = packed_bytes(tensors.lse);
  return bytes;
}

void run_with(RandomProblem& drawn, Backend backend, int threads) {
  drawn.poison_outputs();
  Problem problem = drawn.problem;
  problem.options.backend = backend;
  problem.options.threads = threads;
  compute(problem, length_home(drawn));
}

std::string check_guard(RandomProblem& drawn, const char* name, const OutputView& tensor) {
  Buffer& buffer = drawn.memory.buffer_of(tensor);
  const std::vector<unsigned char> before(buffer.bytes().size(), poison);
  const std::int64_t at = changed_outside(buffer, before, tensor);
  if (at == unchanged) return "";
  return fmt::format("{}: byte {} of its buffer, outside the tensor, was written", name, at);
}

std::string first_difference(const Tensors& tensors, const OutputBytes& a, const OutputBytes& b) {
  const auto differ = [](const char* name, const TensorView& view, const auto& x, const auto& y) {
    const auto at = std::mismatch(x.begin(), x.end(), y.begin()).first - x.begin();
    return fmt::format("element {} of {} {}", at / bytes_of(view.dtype()), name, view.to_string());
  };
  return a.out != b.out ? differ("out", tensors.out, a.out, b.out)
                        : differ("lse", tensors.lse, a.lse, b.lse);
}

std::string check_threads(RandomProblem& drawn, Backend backend, const OutputBytes& expected) {
  for (const int threads : {1, 2, 5}) {
    run_with(drawn, backend, threads);
    const OutputBytes got = outputs_of(drawn.problem.tensors);
    if (got != expected)
      return fmt::format("with {} threads the bits change: {}", threads,
                         first_difference(drawn.problem.tensors, expected, got));
  }
  return "";
}

std::string check_repeats(RandomProblem& drawn, Backend backend, int repeats,
                          const OutputBytes& expected) {
  for (int run = 1; run < repeats; ++run) {
    run_with(drawn, backend, 0);
    const OutputBytes got = outputs_of(drawn.problem.tensors);
    if (got != expected)
      return fmt::format("run {} has other bits than the first: {}", run,
                         first_difference(drawn.problem.tensors, expected, got));
  }
  return "";
}

TensorView row_of(const TensorView& tensor, int b) {
  return tensor && tensor.dim(0) > 1 ? tensor.slice(0, b, b + 1) : tensor;
}

/// The problem of one sequence alone: views into the batch's tensors, outputs of its own.
Problem alone(const RandomProblem& drawn, const core::Geometry& g, int b, TensorMemory& memory) {
  const core::Sequence& s = g.sequences[std::size_t(b)];
  Problem problem = drawn.problem;
  Tensors& t = problem.tensors;
  const auto borders = [&](int length) {
    const OutputView cu = memory.allocate(DType::i32, {2});
    store(cu, 0, 0);
    store(cu, 1, length);
    return TensorView(cu);
  };
  const auto token_scale = [&](Descale& d, std::int64_t begin, int length, bool ragged) {
    if (!d.scale || d.per != Granularity::token) return;
    d.scale = ragged ? d.scale.slice(0, begin, begin + length) : d.scale.slice(0, b, b + 1);
  };
  const bool ragged_query = g.query_layout == core::QueryLayout::ragged;
  if (ragged_query) {
    t.query = t.query.slice(0, s.query_begin, s.query_begin + s.query_length);
    t.cu_seqlens_q = borders(s.query_length);
  } else {
    t.query = t.query.slice(0, b, b + 1);
  }
  token_scale(t.query_descale, s.query_begin, s.query_length, ragged_query);
  if (g.key_layout == core::KeyLayout::ragged) {
    t.key = t.key.slice(0, s.key_begin, s.key_begin + s.key_length);
    if (t.value) t.value = t.value.slice(0, s.key_begin, s.key_begin + s.key_length);
    t.cu_seqlens_k = borders(s.key_length);
  } else if (g.key_layout == core::KeyLayout::dense) {
    t.key = t.key.slice(0, b, b + 1);
    if (t.value) t.value = t.value.slice(0, b, b + 1);
  } else if (t.pages.indptr) {
    const std::int64_t first = core::index_at(t.pages.indptr, b);
    const std::int64_t last = core::index_at(t.pages.indptr, b + 1);
    t.pages.indptr = borders(int(last - first));
    t.pages.indices = t.pages.indices.slice(0, first, last);
    t.pages.last_page_size = row_of(t.pages.last_page_size, b);
  } else {
    t.pages.table = row_of(t.pages.table, b);
  }
  if (g.key_layout != core::KeyLayout::paged) {
    const bool ragged = g.key_layout == core::KeyLayout::ragged;
    token_scale(t.key_descale, s.key_begin, s.key_length, ragged);
    token_scale(t.value_descale, s.key_begin, s.key_length, ragged);
  }
  t.query_lengths = row_of(t.query_lengths, b);
  t.key_lengths = row_of(t.key_lengths, b);
  t.query_starts = row_of(t.query_starts, b);
  t.key_starts = row_of(t.key_starts, b);
  if (t.bias) t.bias = row_of(t.bias, b);
  if (t.alibi_slopes.rank() == 2) t.alibi_slopes = row_of(t.alibi_slopes, b);
  Extents shape = t.query.shape();
  shape[shape.size() - 1] = g.value_dim;
  t.out = memory.allocate(t.out.dtype(), shape);
  if (t.lse)
    t.lse =
        memory.allocate(t.lse.dtype(), ragged_query ? Extents{g.query_heads, t.query.dim(0)}
                                                    : Extents{1, g.query_heads, t.query.dim(1)});
  return problem;
}

/// Batch-invariant mode: each sequence alone has the bits it has in its batch.
std::string check_alone(const RandomProblem& drawn, const core::Geometry& g, Backend backend) {
  const Tensors& whole = drawn.problem.tensors;
  for (int b = 0; b < g.batch; ++b) {
    TensorMemory memory;
    Problem problem = alone(drawn, g, b, memory);
    problem.options.backend = backend;
    compute(problem, length_home(drawn));
    const core::Sequence& s = g.sequences[std::size_t(b)];
    const bool ragged = g.query_layout == core::QueryLayout::ragged;
    const std::int64_t end = s.query_begin + s.query_length;
    const TensorView out =
        ragged ? whole.out.slice(0, s.query_begin, end) : whole.out.slice(0, b, b + 1);
    if (packed_bytes(out) != packed_bytes(problem.tensors.out))
      return fmt::format("batch-invariant: out of sequence {} alone has other bits", b);
    if (!whole.lse) continue;
    const TensorView lse =
        ragged ? whole.lse.slice(1, s.query_begin, end) : whole.lse.slice(0, b, b + 1);
    if (packed_bytes(lse) != packed_bytes(problem.tensors.lse))
      return fmt::format("batch-invariant: lse of sequence {} alone has other bits", b);
  }
  return "";
}

void check_accuracy(const RandomProblem& drawn, const core::Geometry& g, ProblemVerdict& verdict) {
  const Tensors& t = drawn.problem.tensors;
  const reference::Case exact{g, t, drawn.problem.options};
  const reference::Result want = reference::forward(exact), eager = reference::eager(exact);
  const auto compare = [&](const char* name, const reference::Table& got,
                           const reference::Table& expected, const reference::Table& yardstick,
                           const AccuracyRule& rule) {
    const Deviation worst = worst_deviation(got, expected, yardstick, rule);
    if (!worst.within() && verdict.fault.empty())
      verdict.fault = fmt::format("{}: {}", name, worst.text());
    verdict.ratio = std::max(verdict.ratio, worst.ratio);
    if (is_fp8(g.query_dtype)) verdict.fp8_ratio = std::max(verdict.fp8_ratio, worst.eager_ratio);
  };
  if (t.lse) compare("lse", table_of_lse(g, t.lse), want.lse, eager.lse, AccuracyRule::of_lse(g));
  AccuracyRule rule = AccuracyRule::of_out(g);
  rule.may_spread_nan = drawn.value_has_nan;
  compare("out", table_of_out(g, t.out), want.out, eager.out, rule);
}

/// "window(4, -1) && documents(ids)" as "window && documents".
std::string without_numbers(const std::string& formula) {
  std::string words;
  int depth = 0;
  for (std::size_t i = 0; i < formula.size(); ++i) {
    const bool call =
        formula[i] == '(' && i > 0 && std::isalnum(static_cast<unsigned char>(formula[i - 1]));
    if (call || (depth > 0 && formula[i] == '(')) ++depth;
    if (depth == 0) words += formula[i];
    if (depth > 0 && formula[i] == ')') --depth;
  }
  return words;
}

std::vector<std::string> options_of(const Problem& problem) {
  const Tensors& t = problem.tensors;
  const Options& o = problem.options;
  std::vector<std::string> all;
  const auto add = [&](bool used, const std::string& option) {
    if (used) all.push_back(option);
  };
  add(true, fmt::format("dtype: {} over {}", name(t.query.dtype()), name(t.key.dtype())));
  add(true, fmt::format("dtype: out {}", name(t.out.dtype())));
  add(true, t.query.rank() == 4 ? "queries: dense" : "queries: ragged");
  const bool paged = t.pages.present();
  add(!paged, t.key.rank() == 4 ? "keys: dense" : "keys: ragged");
  add(paged, o.page_layout == PageLayout::nhd ? "keys: paged NHD" : "keys: paged HND");
  add(paged, t.pages.table ? "keys: page table" : "keys: page list");
  add(t.query_lengths || t.key_lengths, "lengths: given");
  add(t.query.dim(t.query.rank() - 2) !=
          t.key.dim(paged && o.page_layout == PageLayout::hnd ? 1 : t.key.rank() - 2),
      "heads: grouped");
  add(o.softcap.has_value(), "score: softcap");
  add(t.alibi_slopes.present(), "score: ALiBi");
  add(t.bias.present(), fmt::format("score: bias {}", name(t.bias.dtype())));
  add(o.score.node() != nullptr, "score: " + without_numbers(o.score.text()));
  add(true, "mask: " + without_numbers(o.mask.text()));
  add(t.sinks.present(), "sinks");
  add(t.lse.present(), "lse");
  add(o.scale.has_value(), "scale");
  add(o.positions.has_value(), "positions");
  add(o.output == OutputKind::partial, "output: partial");
  add(o.reproducibility == Reproducibility::batch_invariant, "batch-invariant");
  add(o.value_source == ValueSource::view_of_key, "value: view of key");
  for (const Descale* d : {&t.query_descale, &t.key_descale, &t.value_descale})
    add(d->scale.present(), fmt::format("descale: granularity {}", int(d->per)));
  return all;
}

void count_options(const std::vector<std::string>& options, const ProblemVerdict& verdict,
                   VerifySummary& summary) {
  for (const std::string& option : options) {
    OptionCount& count = summary.options[option];
    if (!verdict.refusal.empty()) {
      ++count.refused;
      count.reason = verdict.refusal;
    } else {
      ++(verdict.fault.empty() ? count.right : count.wrong);
    }
  }
}

/// One problem of a run, after its memory is gone.
struct Outcome {
  ProblemVerdict verdict;
  std::vector<std::string> options;
  std::string description;  // where something is to be told
};

Outcome outcome_of(const VerifyOptions& options, int index) {
  RandomProblem drawn = make_random_problem(options.seed + std::uint64_t(index), options.limits);
  Outcome outcome{check_problem(drawn, options.backend, options.repeats), options_of(drawn.problem),
                  ""};
  if (!outcome.verdict.refusal.empty() || !outcome.verdict.fault.empty())
    outcome.description = drawn.describe();
  return outcome;
}

void count(const Outcome& outcome, VerifySummary& summary, std::ostream& report) {
  const ProblemVerdict& verdict = outcome.verdict;
  count_options(outcome.options, verdict, summary);
  if (!verdict.refusal.empty()) {
    ++summary.refused;
    if (++summary.refusals[verdict.refusal] == 1)
      report << "refused: " << verdict.refusal << '\n' << outcome.description;
  } else if (!verdict.fault.empty()) {
    ++summary.failed;
    report << "FAILED: " << verdict.fault << '\n' << outcome.description;
  } else {
    ++summary.passed;
    summary.worst_ratio = std::max(summary.worst_ratio, verdict.ratio);
    summary.worst_fp8_ratio = std::max(summary.worst_fp8_ratio, verdict.fp8_ratio);
  }
}

}  // namespace

// A bias that a formula reads at positions needs them on the host.
LengthHome length_home(const RandomProblem& drawn) {
  if (drawn.lengths_on_device)
    return *drawn.lengths_on_device ? LengthHome::device : LengthHome::host;
  const bool formula = drawn.problem.options.score.node() != nullptr;
  return drawn.seed % 2 == 0 || formula ? LengthHome::host : LengthHome::device;
}

ProblemVerdict check_problem(RandomProblem& drawn, Backend backend, int repeats) {
  ProblemVerdict verdict;
  try {
    run_with(drawn, backend, 0);
  } catch (const Error& error) {
    verdict.refusal = fmt::format("{}: {}", name(error.code()), error.what());
    return verdict;
  }
  try {
    const Tensors& t = drawn.problem.tensors;
    const core::Geometry geometry = core::resolve(drawn.problem);
    const OutputBytes bytes = outputs_of(t);
    check_accuracy(drawn, geometry, verdict);
    const auto note = [&](const std::string& fault) {
      if (verdict.fault.empty()) verdict.fault = fault;
    };
    note(check_ownerless_rows(geometry, t.out, t.lse));
    note(check_guard(drawn, "out", t.out));
    if (t.lse) note(check_guard(drawn, "lse", t.lse));
    note(check_threads(drawn, backend, bytes));
    note(check_repeats(drawn, backend, repeats, bytes));
    if (drawn.problem.options.reproducibility == Reproducibility::batch_invariant &&
        !drawn.formula_reads_batch)
      note(check_alone(drawn, geometry, backend));
  } catch (const Error& error) {
    verdict.fault = fmt::format("refused after a first run: {}", error.what());
  }
  return verdict;
}

VerifySummary verify(const VerifyOptions& options, std::ostream& report,
                     const VerifyProgress& progress) {
  VerifySummary summary;
  in_order<Outcome>(
      options.cases, worker_count(options.workers), [&](int i) { return outcome_of(options, i); },
      [&](int i, const Outcome& outcome) {
        count(outcome, summary, report);
        if (progress) progress(i + 1, options.cases);
      });
  return summary;
}

std::string VerifySummary::option_counts() const {
  std::string lines =
      fmt::format("{:34} {:>6} {:>6} {:>8}  {}\n", "option", "right", "wrong", "refused", "answer");
  for (const auto& [option, count] : options) {
    const std::string answer = count.wrong != 0   ? "WRONG"
                               : count.right != 0 ? "right"
                                                  : "refused: " + count.reason;
    lines += fmt::format("{:34} {:6} {:6} {:8}  {}\n", option, count.right, count.wrong,
                         count.refused, answer);
  }
  return lines;
}

std::string VerifySummary::text() const {
  std::string lines = fmt::format(
      "{} passed, {} failed, {} refused\n"
      "largest difference: {:.3f} of what the accuracy rule allows\n"
      "fp8 queries: at most {:.3f} times the error of eager attention (2 is the rule, 4 allowed)\n",
      passed, failed, refused, worst_ratio, worst_fp8_ratio);
  for (const auto& [reason, count] : refusals)
    lines += fmt::format("  refused {} times: {}\n", count, reason);
  return lines;
}

}  // namespace tilefold::testing
