// The output tensor's rows, whoever owns them.
#pragma once

namespace tilefold::cuda {

/// The rows of the output tensor.
struct OutputRows {
  long long total;         // over all sequences
  long long per_sequence;  // dense; 0: ragged
};

}  // namespace tilefold::cuda
