// Translates the parameters of a handed case.
#include "support/handed_problem.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/attention.hpp"
#include "tilefold/error.hpp"

namespace tilefold::testing {

namespace {

/// A boolean mask [heads or 1, rows, keys], one a sequence.
struct CaseMask {
  struct Sequence {
    std::int64_t heads, rows, keys;
    std::vector<double> keep;
  };
  std::shared_ptr<const std::vector<Sequence>> sequences;
  bool keep(int q, int k, score::Place at) const {
    const Sequence& s = (*sequences)[std::size_t(at.batch)];
    const std::int64_t head = s.heads > 1 ? at.query_head : 0;
    return s.keep[std::size_t((head * s.rows + q) * s.keys + k)] != 0;
  }
};

struct PlusRelative {
  template <class S, class N> S change(S s, N q, N k, score::Place at) const {
    return s + score::real<S>(q + N(at.offset) - k);
  }
};
struct MinusHalfRelative {
  template <class S, class N> S change(S s, N q, N k, score::Place at) const {
    using F = typename score::Plain<S>::type;
    return s - S(F(0.5)) * score::real<S>(score::abs(q + N(at.offset) - k));
  }
};
struct HeadParity {
  template <class S, class N> S change(S s, N q, N k, score::Place at) const {
    using F = typename score::Plain<S>::type;
    const bool odd = score::decided(score::floor_mod(q + k + N(at.query_head), 2) == N(1));
    return s + S(F(odd ? 0.25 : -0.25));
  }
};

ScoreChange named_score_change(const std::string& text) {
  if (text == "plus_rel") return change(PlusRelative{}, text);
  if (text == "minus_half_rel") return change(MinusHalfRelative{}, text);
  if (text == "head_parity") return change(HeadParity{}, text);
  throw Error(ErrorCode::file_format, "score_mod is '" + text + "', which has no definition");
}

TensorView index_tensor(TensorMemory& memory, const std::vector<double>& values) {
  const OutputView tensor = memory.allocate(DType::i32, {std::int64_t(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) store(tensor, std::int64_t(i), values[i]);
  return tensor;
}

TensorView float_tensor(TensorMemory& memory, const std::vector<double>& values) {
  const OutputView tensor = memory.allocate(DType::f32, {std::int64_t(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) store(tensor, std::int64_t(i), values[i]);
  return tensor;
}

Mask data_mask_of(const HandedCase& c) {
  Mask mask;
  if (c.flag("causal")) mask = mask && causal();
  if (const auto window_of = c.lists.find("window"); window_of != c.lists.end())
    mask = mask && window(int(window_of->second[0]), int(window_of->second[1]));
  return mask;
}

Mask code_mask_of(const HandedCase& c) {
  auto sequences = std::make_shared<std::vector<CaseMask::Sequence>>();
  if (const auto found = c.inputs.find("mask"); found != c.inputs.end()) {
    const CaseArray& array = found->second;
    sequences->push_back({array.shape[0], array.shape[1], array.shape[2], array.data});
  } else if (const auto list = c.tables.find("masks"); list != c.tables.end()) {
    const std::vector<double>& cu = c.lists.at("cu_seqlens_q");
    for (std::size_t b = 0; b < list->second.size(); ++b) {
      const auto rows = std::int64_t(cu[b + 1] - cu[b]);
      const auto keys = std::int64_t(list->second[b].size()) / std::max<std::int64_t>(rows, 1);
      sequences->push_back({1, rows, keys, list->second[b]});
    }
  }
  if (sequences->empty()) return {};
  return mask<Reading::elements>(CaseMask{sequences}, "the case's mask");
}

/// A [heads or 1, rows, keys] array in front of one sequence.
TensorView bias_tensor(TensorMemory& memory, const CaseArray& array, DType dtype) {
  const DType type = dtype == DType::f64 ? DType::f64 : DType::f32;
  return place(memory, array, type, LeadingAxis::batch);
}

void add_options(const HandedCase& c, DType dtype, CaseProblem& drawn) {
  Options& options = drawn.problem.options;
  Tensors& tensors = drawn.problem.tensors;
  if (c.numbers.count("scale")) options.scale = c.numbers.at("scale");
  if (c.numbers.count("softcap") && c.numbers.at("softcap") > 0)
    options.softcap = c.numbers.at("softcap");
  if (c.numbers.count("max_seqlen_q"))
    options.capacity.query_length = std::int64_t(c.numbers.at("max_seqlen_q"));
  if (c.numbers.count("max_seqlen_k"))
    options.capacity.key_length = std::int64_t(c.numbers.at("max_seqlen_k"));
  if (c.texts.count("score_mod")) drawn.code_score = named_score_change(c.texts.at("score_mod"));
  options.score = drawn.code_score;
  if (c.lists.count("sinks")) tensors.sinks = float_tensor(drawn.memory, c.lists.at("sinks"));
  if (c.lists.count("alibi"))
    tensors.alibi_slopes = float_tensor(drawn.memory, c.lists.at("alibi"));
  if (c.inputs.count("bias")) tensors.bias = bias_tensor(drawn.memory, c.inputs.at("bias"), dtype);
  // A mask of the wrong shape is refused in the form that has a shape: 0 and minus infinity to add.
  if (c.inputs.count("mask") && c.expected_texts.count("error")) {
    CaseArray array = c.inputs.at("mask");
    for (double& x : array.data) x = x != 0 ? 0 : -std::numeric_limits<double>::infinity();
    tensors.bias = bias_tensor(drawn.memory, array, dtype);
    return;
  }
  drawn.data_mask = data_mask_of(c);
  drawn.code_mask = code_mask_of(c);
  options.mask = drawn.data_mask && drawn.code_mask;
}

TensorView sparse_pool(CaseProblem& drawn, const CasePages& pages, DType dtype) {
  const std::int64_t page = std::accumulate(pages.page_shape.begin(), pages.page_shape.end(),
                                            std::int64_t{1}, std::multiplies<>());
  const std::int64_t bytes = page * pages.page_count * bytes_of(dtype);
  drawn.pools.push_back(std::make_shared<SparseMemory>(std::size_t(bytes)));
  const OutputView pool(
      drawn.pools.back()->data(), dtype,
      {pages.page_count, pages.page_shape[0], pages.page_shape[1], pages.page_shape[2]});
  for (const CasePages::Placed& placed : pages.placed)
    for (std::size_t i = 0; i < placed.values.data.size(); ++i)
      store_at(pool, placed.page * page + std::int64_t(i), placed.values.data[i]);
  return pool;
}

void add_pages(const HandedCase& c, DType dtype, CaseProblem& drawn) {
  Tensors& t = drawn.problem.tensors;
  const auto pool = [&](const char* name) -> TensorView {
    if (c.pools.count(name)) return sparse_pool(drawn, c.pools.at(name), dtype);
    return place(drawn.memory, c.inputs.at(name), dtype, LeadingAxis::none);
  };
  t.key = pool("k_pages");
  t.value = pool("v_pages");
  if (c.texts.count("k_layout") && c.texts.at("k_layout") == "HND") {
    drawn.problem.options.page_layout = PageLayout::hnd;
    t.key = t.key.transposed(1, 2);
    t.value = t.value.transposed(1, 2);
  }
  const auto& rows = c.tables.at("block_table");
  const OutputView table =
      drawn.memory.allocate(DType::i32, {std::int64_t(rows.size()), std::int64_t(rows[0].size())});
  for (std::size_t b = 0; b < rows.size(); ++b)
    for (std::size_t p = 0; p < rows[b].size(); ++p)
      store(table, std::int64_t(b * rows[0].size() + p), rows[b][p]);
  t.pages.table = table;
  t.key_lengths = index_tensor(drawn.memory, c.lists.at("seq_lens"));
}

}  // namespace

SparseMemory::SparseMemory(std::size_t bytes) : data_(nullptr), bytes_(bytes) {
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
               -1, 0);
  if (data_ == MAP_FAILED)
    throw Error(ErrorCode::out_of_memory,
                "a sparse pool of " + std::to_string(bytes) + " bytes cannot be reserved");
}
SparseMemory::~SparseMemory() { munmap(data_, bytes_); }

DType case_dtype(const std::string& name) {
  if (name == "fp64") return DType::f64;
  if (name == "fp32") return DType::f32;
  if (name == "fp16") return DType::f16;
  if (name == "bf16") return DType::bf16;
  throw Error(ErrorCode::file_format, "a tolerance is for '" + name + "', which is no dtype");
}

bool exact_in(const HandedCase& c, DType dtype) {
  const auto exact = [&](double x) {
    return !std::isfinite(x) || reference::rounded(x, dtype) == x;
  };
  for (const auto& [name, array] : c.inputs) {
    if (name == "mask" || name == "bias" || name == "lses" || name == "k_codes" ||
        name == "v_codes")
      continue;
    if (!std::all_of(array.data.begin(), array.data.end(), exact)) return false;
  }
  return true;
}

OutputView place(TensorMemory& memory, const CaseArray& array, DType dtype, LeadingAxis leading) {
  std::vector<std::int64_t> shape = array.shape, strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  std::int64_t offset = 0, storage = step;
  if (array.view) {
    strides = array.view->strides;
    offset = array.view->offset;
    storage = array.view->storage;
  }
  const OutputView flat = memory.allocate(dtype, {storage});
  for (std::int64_t i = 0; array.view && i < storage; ++i) store(flat, i, array.view->fill);
  if (leading == LeadingAxis::batch) {
    strides.insert(strides.begin(), step);
    shape.insert(shape.begin(), 1);
  }
  const Extents extents(shape.data(), int(shape.size()));
  auto* first = static_cast<unsigned char*>(flat.data()) + offset * bytes_of(dtype);
  const OutputView tensor(first, dtype, extents, Extents(strides.data(), int(strides.size())));
  for (std::size_t i = 0; i < array.data.size(); ++i) store(tensor, std::int64_t(i), array.data[i]);
  return tensor;
}

void allocate_outputs(CaseProblem& drawn, DType out_dtype, std::int64_t value_dim) {
  Tensors& t = drawn.problem.tensors;
  Extents shape = t.query.shape();
  shape[shape.size() - 1] = value_dim;
  t.out = drawn.memory.allocate(out_dtype, shape);
  t.lse = drawn.memory.allocate(
      t.query.dtype() == DType::f64 ? DType::f64 : DType::f32,
      shape.size() == 4 ? Extents{shape[0], shape[2], shape[1]} : Extents{shape[1], shape[0]});
}

CaseProblem attention_problem(const HandedCase& c, DType dtype) {
  CaseProblem drawn;
  Tensors& t = drawn.problem.tensors;
  const bool paged = c.tables.count("block_table") > 0;
  const LeadingAxis leading =
      c.lists.count("cu_seqlens_q") ? LeadingAxis::none : LeadingAxis::batch;
  t.query = place(drawn.memory, c.inputs.at("q"), dtype, leading);
  if (leading == LeadingAxis::none)
    t.cu_seqlens_q = index_tensor(drawn.memory, c.lists.at("cu_seqlens_q"));
  if (paged) {
    add_pages(c, dtype, drawn);
  } else {
    t.key = place(drawn.memory, c.inputs.at("k"), dtype, leading);
    t.value = place(drawn.memory, c.inputs.at("v"), dtype, leading);
    if (leading == LeadingAxis::none)
      t.cu_seqlens_k = index_tensor(drawn.memory, c.lists.at("cu_seqlens_k"));
  }
  add_options(c, dtype, drawn);
  allocate_outputs(drawn, dtype, t.value.dim(t.value.rank() - 1));
  return drawn;
}

CaseArray out_array(const TensorView& out) {
  const int first = out.rank() == 4 ? 1 : 0;  // the batch has one sequence
  CaseArray array;
  array.shape.assign(out.shape().begin() + first, out.shape().end());
  for (std::int64_t i = 0; i < out.element_count(); ++i) array.data.push_back(load(out, i));
  return array;
}

CaseArray lse_array(const TensorView& lse) {
  const int heads = lse.rank() == 3 ? 1 : 0;
  const TensorView tokens_first = lse.transposed(heads, heads + 1);
  CaseArray array;
  array.shape = {tokens_first.dim(heads), tokens_first.dim(heads + 1)};
  for (std::int64_t i = 0; i < lse.element_count(); ++i)
    array.data.push_back(load(tokens_first, i));
  return array;
}

}  // namespace tilefold::testing
