#include "cuda/formula_compiler.hpp"

#include "cuda/jit/cache.hpp"

namespace tilefold::cuda {

namespace {

FormulaCache described(const jit::DiskCacheSettings& settings,
                       const jit::DiskCache::Contents& contents) {
  return {settings.directory, settings.why_none, settings.limit_bytes, contents.entries,
          contents.bytes};
}

}  // namespace

FormulaCompiler formula_compiler() {
  const jit::Nvrtc& found = jit::nvrtc();
  if (!found.found()) return {{}, {}, found.absence()};
  return {found.version(), found.path(), {}};
}

FormulaCache formula_cache() {
  const jit::DiskCache cache(jit::disk_cache_settings());
  return described(cache.settings(), cache.contents());
}

FormulaCache clear_formula_cache() {
  const jit::DiskCache cache(jit::disk_cache_settings());
  return described(cache.settings(), cache.clear());
}

FormulaCounts formula_counts() {
  const jit::CacheStatistics s = jit::KernelCache::of_process().statistics();
  return {s.compiled, s.from_memory, s.from_disk, s.write_failures};
}

}  // namespace tilefold::cuda
