// Random problems through the public API, checked against float64 by the accuracy rule.
//
//   VerifySummary summary = verify({.cases = 1000, .seed = 1}, std::cout);
//   return summary.failed == 0 ? 0 : 1;
//
// For each problem: out and lse against the reference; rows that belong to nobody; bytes around the
// outputs untouched; the same bits with 1, 2 and 5 threads; and, in batch-invariant mode, the same
// bits for each sequence alone as in its batch.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>

#include "support/device_description.hpp"
#include "support/problem_generator.hpp"

namespace tilefold::testing {

struct VerifyOptions {
  Backend backend = Backend::automatic;
  int cases = 1000;
  std::uint64_t seed = 1;  ///< problem i is drawn from seed + i
  GeneratorLimits limits;
  int workers = 0;  ///< problems at a time, each on a thread of its own; 0: one a core
  int repeats = 1;  ///< runs of each problem that must give the same bits
};

/// How the problems with one option fared.
struct OptionCount {
  int right = 0, wrong = 0, refused = 0;
  std::string reason;  ///< of the last refusal
};

struct VerifySummary {
  std::map<std::string, OptionCount> options;  ///< "keys: ragged", "score: softcap", ...
  int passed = 0, failed = 0, refused = 0;
  std::map<std::string, int> refusals;  ///< reason -> how often
  double worst_ratio = 0;               ///< of the allowed difference, over the passed problems
  double worst_fp8_ratio = 0;           ///< of eager's own error, over problems with fp8 queries
  std::string text() const;
  /// A line an option: right, refused with its reason, or wrong.
  std::string option_counts() const;
};

/// Called after each problem with the number done.
using VerifyProgress = std::function<void(int done, int of)>;

/// Draws and checks `cases` problems; each breach is printed with the problem's description, in the
/// order of seeds whatever the number of workers, and the run goes on.
VerifySummary verify(const VerifyOptions& options, std::ostream& report,
                     const VerifyProgress& progress = {});

/// Where a CUDA run of the problem finds its lengths: every other one on the device.
LengthHome length_home(const RandomProblem& drawn);

/// One problem. An empty `fault` is a pass.
struct ProblemVerdict {
  std::string fault, refusal;
  double ratio = 0, fp8_ratio = 0;
};
ProblemVerdict check_problem(RandomProblem& drawn, Backend backend, int repeats = 1);

}  // namespace tilefold::testing
