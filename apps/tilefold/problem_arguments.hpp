// The options of the command line that describe a problem, and the problem they make.
//
//   ProblemArguments arguments;
//   arguments.add_to(command);
//   TensorStore store;                                   // outlives the problem
//   arguments.apply(problem, store);                     // masks need the tensors' shapes: fill
//   those first
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>

#include "core/files/tensor_file.hpp"
#include "formula_arguments.hpp"
#include "tilefold/problem.hpp"

namespace CLI {
class App;
}

namespace tilefold::cli {

/// Owns what a problem's views point into.
class TensorStore {
 public:
  /// "q.npy" or "file.safetensors:name".
  OutputView read(const std::string& spec);
  /// A file, or numbers: "0,5,12" becomes int32 [3].
  TensorView indices(const std::string& text, const char* option);
  OutputView allocate(DType dtype, const Extents& shape);

 private:
  std::list<files::OwnedTensor> tensors_;  // a list: addresses of elements stay
};

/// "4,-1,7"; no value where the text is anything else.
std::optional<std::vector<std::int64_t>> numbers(const std::string& text);

struct DescaleArgument {
  std::string file, per = "tensor";
};

struct ProblemArguments {
  bool causal = false, partial = false, batch_invariant = false;
  std::string window, prefix, documents, positions;
  std::string alibi, bias, sinks;
  std::optional<double> scale, softcap;
  std::string cu_seqlens_q, cu_seqlens_k, query_lengths, key_lengths, query_starts, key_starts;
  std::string page_table, page_indptr, page_indices, last_page_size, page_layout;
  DescaleArgument query_descale, key_descale, value_descale;
  FormulaArguments formulas;
  std::int64_t value_dim = 0;
  int threads = 0;
  std::string backend = "auto";

  void add_to(CLI::App& command);
  /// Fills everything but query, key, value, out and lse; `query` and `key` must be there already.
  void apply(Problem& problem, TensorStore& store) const;
};

/// The shape and dtype of out and lse that fit a problem's inputs.
struct OutputDescription {
  DType out_dtype, lse_dtype;
  Extents out_shape, lse_shape;
};
OutputDescription describe_outputs(const Problem& problem, const std::string& out_dtype);

/// "bf16", ...; throws UsageError naming the option.
DType dtype_named(const std::string& text, const char* option);

}  // namespace tilefold::cli
