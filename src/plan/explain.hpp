// A plan in words and as JSON: what was chosen, what was not and why, and which roof binds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/choose.hpp"
#include "plan/count.hpp"

namespace tilefold::planner {

struct RejectedKernel {
  std::string name, reason;
};

/// What the work is spread over.
struct Machine {
  enum class Kind { cpu, gpu } kind = Kind::cpu;
  std::string name;              // of a GPU
  bool here = true;              // false: planned for, and not in this machine
  int cores = 1;                 // threads, or multiprocessors
  double bytes_per_second = 0;   // of a GPU's device memory
  double cycles_per_second = 0;  // of a GPU's multiprocessor
};

/// Time in cycles that each resource would need if it were the only one: of one CPU core, or of all
/// multiprocessors of a GPU together.
struct Roofs {
  double memory, multiply, exponential, cache;
  /// "memory", "multiply", "exponential" or "cache": the largest. On a GPU they are the device
  /// memory, the tensor pipe (or the multiply-add units), the exponential unit, the shared memory.
  const char* binding() const;
};

/// A kernel that could compute the problem, beside the one that does.
struct PredictedKernel {
  std::string name;
  Prediction prediction;
};

struct Explanation {
  std::string kernel, instructions, problem, mask, score, layout;
  std::vector<RejectedKernel> rejected;    // every kernel
  std::vector<GroupedRefusal> grouped;     // the same, a line for what kernels of a family share
  std::vector<PredictedKernel> predicted;  // of each family the kernel that was asked, in order
  std::string interpretation;              // of a formula that is read as data, and why
  std::string compilation;                 // of a formula at run time, and how long it took
  std::string because;                     // why the kernel was chosen among them
  TileShape tile;
  int split_keys = 0;
  std::int64_t items = 0;
  Machine machine;
  bool by_capacity = false;  // lengths are on the device: the counts are upper bounds
  bool tensor_pipe = false;
  Work work;
  Bluntness bluntness;
  double flops = 0, bytes = 0;
  Roofs roofs{};
  std::size_t workspace_bytes = 0;
};

/// Everything that explain() tells, as data. Counts tiles: milliseconds for long sequences.
Explanation explain(std::span<const Candidate> candidates, int chosen,
                    const core::Geometry& geometry, const Problem& problem,
                    const Schedule& schedule, const Machine& machine);

std::string to_text(const Explanation& explanation);
std::string to_json(const Explanation& explanation);

}  // namespace tilefold::planner
