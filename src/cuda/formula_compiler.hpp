// What compiles formulas at run time, and what it has kept: for `tilefold info` and `cache`, and
// for tests that count compilations. No toolkit header; backend_absent.cpp stands behind it where
// CUDA is not built.
#pragma once

#include <cstdint>
#include <string>

namespace tilefold::cuda {

/// NVRTC as it was found, or a sentence that says why there is none.
struct FormulaCompiler {
  std::string version, path, absence;
};
FormulaCompiler formula_compiler();

/// Kernels on the disk.
struct FormulaCache {
  std::string directory;  // empty: there is none
  std::string why_none;   // then
  std::uint64_t limit_bytes = 0, entries = 0, bytes = 0;
};
FormulaCache formula_cache();
/// Removes all entries; gives what there was. Throws Error(file_io) for one that stays.
FormulaCache clear_formula_cache();

/// Kernels of this process, by where they came from. `write_failures`: compiled, and not left on
/// the disk.
struct FormulaCounts {
  long long compiled = 0, from_memory = 0, from_disk = 0, write_failures = 0;
};
FormulaCounts formula_counts();

}  // namespace tilefold::cuda
