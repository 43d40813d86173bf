// How a problem will be computed, and the means to do so again and again.
//
//   tilefold::Plan plan = tilefold::plan(problem);   // host code only; reads lengths, not
//   activations std::cout << plan.explain(); plan.run(problem.tensors);                       //
//   every layer: same shapes, other pointers
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tilefold/problem.hpp"

namespace tilefold {

/// Key tiles met by query tiles, as the mask answers for them.
struct TileCounts {
  std::int64_t none = 0;     ///< hidden: never loaded
  std::int64_t partial = 0;  ///< mask code runs
  std::int64_t full = 0;     ///< no mask code runs
  friend bool operator==(const TileCounts&, const TileCounts&) = default;
};

/// Memory for one run at a time: Plan::workspace_bytes() bytes, aligned to 64, on the plan's
/// device.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Where and how a run executes.
struct RunOptions {
  Workspace workspace{};          ///< empty: the plan's own, allocated by prepare()
  void* stream = nullptr;         ///< CUDA backend: a cudaStream_t; null is the default stream
  TileCounts* visited = nullptr;  ///< CPU backend: adds the tiles this run touched
};

/// Plain data behind a shared pointer: copies share it, and nothing in it changes after plan(),
/// save the workspace that prepare() allocates. One run at a time per workspace.
class Plan {
 public:
  struct State;
  explicit Plan(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// Kernel, rejected kernels with their reasons, tiles, bytes, FLOPs, roofs. Counts tiles, so it
  /// takes longer than plan() itself.
  std::string explain() const;
  /// The same as a JSON object.
  std::string explain_json() const;
  /// Reads side tensors of the formula that lie on a device, in the stream's order, and waits for
  /// that: until they are updated, explain() and count_tiles() count tiles by them. Without, tiles
  /// that such a tensor decides count as partial.
  void read_side_tensors(void* stream) const;
  /// Tiles none, partial and full, counted from the mask alone. Lengths on a device count as their
  /// capacities: none of them is read.
  TileCounts count_tiles() const;
  const char* kernel() const;
  std::size_t workspace_bytes() const;
  /// Allocates the workspace; once. Called by the first run() that brings no workspace.
  void prepare();
  /// Computes. Tensors must have the dtypes, shapes, strides and devices of the plan's problem, and
  /// host lengths and tables with the same contents. Allocates nothing after prepare().
  /// Throws Error(plan_mismatch, overlap, misaligned, ...) before anything is written.
  void run(const Tensors& tensors, const RunOptions& options = {}) const;
  /// Bits of what device-side lengths or tables did wrong; 0 is none. Host arrays are checked by
  /// plan().
  std::uint32_t status() const;

 private:
  std::shared_ptr<State> state_;
};

/// Chooses kernel, tiles, splits and workspace. Throws Error for everything the host can see to be
/// wrong, naming the argument; nothing is allocated on a device and nothing is written.
Plan plan(const Problem& problem);

}  // namespace tilefold
