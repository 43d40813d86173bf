// Hardware counters of the rungs, read by Nsight Compute (ncu) where it is installed.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilefold::bench {

/// Counters of one kernel of one rung; "-" where this card has none.
struct LadderCounters {
  std::string rung;    // "v2"
  std::string kernel;  // "v2::forward<64>"
  std::string device_bytes, l2_hit_percent, tensor_pipe_percent, barrier_stalls, bank_conflicts;
};

/// ncu: $TILEFOLD_NCU, on PATH, in CUDA_HOME, or where toolkits and Nsight Compute install it below
/// `root` ("/" but in tests): usr/local/cuda*/bin, usr/local/cuda*/nsight-compute-*,
/// opt/nvidia/nsight-compute/*, the newest first. Empty where it is not.
std::filesystem::path find_ncu(const std::filesystem::path& root = "/");

/// The counters in what ncu prints with --csv: one line a kernel and metric. Kernels named
/// rung_marker cut the log: what stands behind the k-th belongs to rungs[k]. Lines that are not CSV
/// are passed over; so are kernels of other names that no rung owns. Throws Error(unsupported) with
/// the head of the text where no counter is found.
std::vector<LadderCounters> parse_counters(const std::string& text,
                                           std::span<const std::string> rungs);

using ProfileProgress = std::function<void(double part, const std::string& note)>;

/// Runs `command`, which launches these rungs, under ncu; throws Error(unsupported) where ncu is
/// not installed or may not read the counters.
std::vector<LadderCounters> profile(const std::string& command, std::span<const std::string> rungs,
                                    const ProfileProgress& progress = {});

std::string to_table(std::span<const LadderCounters> counters);
/// A comment line with `head`, the names of the columns, one line a kernel.
std::string to_csv(std::span<const LadderCounters> counters, const std::string& head);

}  // namespace tilefold::bench
