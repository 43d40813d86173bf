#include "tilefold/attention.hpp"

namespace tilefold {

void attend(const TensorView& query, const TensorView& key, const TensorView& value,
            const OutputView& out, const Options& options, const OutputView& lse) {
  Problem problem;
  problem.tensors.query = query;
  problem.tensors.key = key;
  problem.tensors.value = value;
  problem.tensors.out = out;
  problem.tensors.lse = lse;
  problem.options = options;
  attend(problem);
}

void attend(const Problem& problem) { plan(problem).run(problem.tensors); }

const char* version() noexcept { return TILEFOLD_VERSION; }

}  // namespace tilefold
