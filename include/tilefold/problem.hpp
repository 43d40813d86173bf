// What is to be computed: tensors and options. docs/semantics.md says what each option means.
//
//   tilefold::Problem problem;
//   problem.tensors = {.query = q, .key = k, .value = v, .out = o};
//   problem.options.mask = tilefold::causal();
//   tilefold::Plan plan = tilefold::plan(problem);
//
// B sequences, Hq query heads, Hkv KV heads (Hq a multiple of Hkv), head dimensions Dqk and Dv.
// Layouts, told from rank and from which tensors are present:
//   dense   query [B, Sq, Hq, Dqk], key [B, Sk, Hkv, Dqk], value [B, Sk, Hkv, Dv]
//   ragged  query [total_q, Hq, Dqk] with cu_seqlens_q, key [total_k, Hkv, Dqk] with cu_seqlens_k
//   paged   key [pages, page_size, Hkv, Dqk] (NHD) or [pages, Hkv, page_size, Dqk] (HND) with a
//   page
//           table; the query is dense or ragged
#pragma once

#include <optional>

#include "tilefold/formula.hpp"
#include "tilefold/tensor_view.hpp"

namespace tilefold {

/// What one entry of a descale tensor covers.
enum class Granularity {
  tensor,  ///< [] or [1]
  head,    ///< [heads of the tensor it belongs to]
  token,   ///< [B, S, heads], [total, heads] or, paged, [pages, page_size, heads]
  page,    ///< [pages, heads]; paged key and value only
};

/// Stored value * scale = the value that counts. Absent: 1.
struct Descale {
  TensorView scale{};  // f32
  Granularity per = Granularity::tensor;
};

/// Which pages hold a sequence's keys, in one of two forms.
struct PageTable {
  TensorView table{};  // [B, max_pages] int32; an entry that no row needs may be -1

  TensorView indptr{};   // [B + 1] int32: sequence b owns indices[indptr[b] .. indptr[b + 1])
  TensorView indices{};  // [pages in use] int32
  TensorView last_page_size{};  // [B] int32, keys on the last page, 1 .. page_size (0 with no page)

  bool present() const { return table.present() || indptr.present(); }
};

/// Every tensor of a problem. Absent ones are default-constructed. The last axis is contiguous,
/// other strides are free. Lengths and tables are host arrays, or device arrays with stated
/// capacities.
struct Tensors {
  TensorView query{}, key{}, value{};
  OutputView out{};  // [B, Sq, Hq, Dv] or [total_q, Hq, Dv]; the query's dtype, bf16, f16 or f32
  OutputView
      lse{};  // optional; [B, Hq, Sq] or [Hq, total_q], f32 (f64 for f64 inputs), natural log

  TensorView cu_seqlens_q{}, cu_seqlens_k{};  // [B + 1] int32 or int64, first entry 0
  TensorView query_lengths{}, key_lengths{};  // [B] int32 or int64: the part of a dense row (or of
                                              // the pages) that exists; no mask, it sets Sq and Sk
  PageTable pages{};

  Descale query_descale{}, key_descale{}, value_descale{};
  TensorView sinks{};         // [Hq] f32: one more logit in each row's denominator, without a value
  TensorView alibi_slopes{};  // [Hq] or [B, Hq] f32
  TensorView bias{};  // [B or 1, Hq or 1, Sq or 1, Sk or 1] f32, f16 or bf16 (f64 too for f64
                      // inputs), read at a row's and a key's index within the sequence

  TensorView query_starts{},
      key_starts{};  // [B] int32 or int64, added to Options::positions' starts
};

/// Where rows stand in the sequence that formulas speak of: position = start + stride * index. For
/// shards and chunks, whose masks are those of the whole.
struct Affine {
  std::int64_t start = 0, stride = 1;
};
struct Positions {
  Affine query{}, key{};
  std::int64_t offset = 0;  ///< of the whole sequence: its Sk - Sq
};

enum class PageLayout { nhd, hnd };
/// `view_of_key`: value is absent and reads the first value_dim columns of the key (latent caches).
enum class ValueSource { own, view_of_key };
/// `partial`: out is f32 (f64 for f64 inputs), lse is required, sinks are refused: input of
/// merge().
enum class OutputKind { finished, partial };
/// `batch_invariant`: a row's bits depend on its own query, keys and options only.
enum class Reproducibility { same_plan, batch_invariant };
enum class Backend { automatic, cpu, cuda };

/// Upper bounds. On host arrays they are checked hints; device arrays require them.
struct Capacities {
  std::optional<std::int64_t> query_length{}, key_length{}, pages_per_row{};
};

struct Options {
  std::optional<double> scale{};    ///< 1 / sqrt(Dqk) unless given
  std::optional<double> softcap{};  ///< cap * tanh(s / cap), before ALiBi, bias and `score`
  Mask mask{};
  ScoreChange score{};  ///< after softcap, ALiBi and bias
  std::optional<Positions> positions{};
  PageLayout page_layout = PageLayout::nhd;
  ValueSource value_source = ValueSource::own;
  std::int64_t value_dim = 0;  ///< with ValueSource::view_of_key
  OutputKind output = OutputKind::finished;
  Reproducibility reproducibility = Reproducibility::same_plan;
  Capacities capacity{};
  Backend backend = Backend::automatic;
  int threads = 0;  ///< CPU backend: 0 takes all cores; changes no bit of the result
};

struct Problem {
  Tensors tensors{};
  Options options{};
};

}  // namespace tilefold
