// A handed case as a problem of the public API, in a chosen dtype.
#pragma once

#include <memory>
#include <string>

#include "support/handed_case.hpp"
#include "support/tensor_memory.hpp"
#include "tilefold/problem.hpp"

namespace tilefold::testing {

/// Address space of a pool whose pages are mostly never touched.
class SparseMemory {
 public:
  /// Throws Error(out_of_memory) where the system refuses the reservation.
  explicit SparseMemory(std::size_t bytes);
  ~SparseMemory();
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  void* data() { return data_; }

 private:
  void* data_;
  std::size_t bytes_;
};

struct CaseProblem {
  Problem problem;
  TensorMemory memory;
  std::vector<std::shared_ptr<SparseMemory>> pools;
  // The parts of options.mask and options.score that are code, and the mask without them. The code
  // of a score change only adds to the score.
  Mask code_mask, data_mask;
  ScoreChange code_score;
};

/// "fp64" -> f64 and the like. Throws Error(file_format) for another name.
DType case_dtype(const std::string& name);

/// Every finite number of the case's floating-point inputs has an exact value in the dtype.
bool exact_in(const HandedCase& c, DType dtype);

/// An array as a tensor with the case's own strides; `leading` puts an axis of extent 1 in front.
enum class LeadingAxis { none, batch };
OutputView place(TensorMemory& memory, const CaseArray& array, DType dtype, LeadingAxis leading);

/// query, key and value of "q", "k", "v", or of "q", "k_pages", "v_pages" with the case's tables;
/// mask, window, softcap, sinks, slopes, bias and score change; poisoned outputs of the query's
/// dtype. Without cu_seqlens the problem is one dense sequence.
CaseProblem attention_problem(const HandedCase& c, DType dtype);

/// out and lse, poisoned, of the problem's query.
void allocate_outputs(CaseProblem& drawn, DType out_dtype, std::int64_t value_dim);

/// Results in the cases' order: out [tokens, heads, Dv], lse [tokens, heads].
CaseArray out_array(const TensorView& out);
CaseArray lse_array(const TensorView& lse);

}  // namespace tilefold::testing
