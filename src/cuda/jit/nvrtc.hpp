// NVRTC, NVIDIA's compiler at run time, as it is found on first use: nothing links it, and none of
// its headers is read.
//
//   const Nvrtc& compiler = nvrtc();
//   if (!compiler.found()) return compiler.absence();   // where was looked, and what to do
//   const Compilation made = compiler.compile({source, "my::kernel<3>", "sm_90a"}, headers);
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/jit/sources.hpp"

namespace tilefold::cuda::jit {

/// One kernel as NVRTC is asked for it.
struct Translation {
  std::string source;        // C++
  std::string kernel;        // its name in the source: "my::kernel<3>"
  std::string architecture;  // "sm_90a"; never PTX
};

/// Machine code of one kernel.
struct Cubin {
  std::string code;    // an ELF file
  std::string kernel;  // its name in there
  std::string report;  // what the assembler says of registers and spills
};

struct Compilation {
  std::optional<Cubin> cubin;
  std::string log;  // errors and warnings; empty where there are none
};

class Nvrtc {
 public:
  /// TILEFOLD_NVRTC, where it is set; else the loader's path, CUDA_HOME, CUDA_PATH,
  /// /usr/local/cuda and Python's packages.
  static Nvrtc look();

  bool found() const { return found_; }
  /// Why there is none; empty where there is one.
  const std::string& absence() const { return absence_; }
  /// The file.
  const std::string& path() const { return path_; }
  /// "13.0".
  std::string version() const;

  /// By any number of threads at once. `headers`: all that the source may include.
  Compilation compile(const Translation& translation, std::span<const KernelSource> headers) const;
  /// What compile() passes beside the architecture.
  static std::span<const char* const> options();

 private:
  using Program = struct OpaqueProgram*;
  /// A program and its end.
  class Session;

  bool open(const std::string& file);
  bool bind(void* library);
  void keep_builtins() const;

  bool found_ = false;
  std::string absence_, path_;
  int major_ = 0, minor_ = 0;

  // Each but the last returns 0 on success.
  int (*get_version_)(int* major, int* minor) = nullptr;
  int (*create_)(Program*, const char* source, const char* name, int headers,
                 const char* const* texts, const char* const* names) = nullptr;
  int (*destroy_)(Program*) = nullptr;
  int (*compile_)(Program, int count, const char* const* options) = nullptr;
  int (*log_size_)(Program, std::size_t*) = nullptr;
  int (*log_)(Program, char*) = nullptr;
  int (*cubin_size_)(Program, std::size_t*) = nullptr;
  int (*cubin_)(Program, char*) = nullptr;
  int (*add_name_)(Program, const char* expression) = nullptr;
  int (*lowered_name_)(Program, const char* expression, const char** name) = nullptr;
  const char* (*error_text_)(int) = nullptr;
};

/// Looked for once a process.
const Nvrtc& nvrtc();

/// The bytes of registers that a kernel keeps in memory, from Cubin::report; -1 where it does not
/// say.
int spilled_bytes(const std::string& report);

}  // namespace tilefold::cuda::jit
