// Compiles one .cu through NVRTC with the public headers in memory and no include path, to a cubin.
//
//   compile_with_nvrtc LIBNVRTC INCLUDE_DIR SOURCE ARCH HEADER...
//
// The headers are named as they are included ("tilefold/score/masks.hpp") and read from
// INCLUDE_DIR. NVRTC is opened as tilefold's own JIT opens it, at run time and without a toolkit's
// header. No GPU or driver is needed. Exit status 1, with NVRTC's log, where the compilation fails.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Program = struct OpaqueProgram*;

// The functions of libnvrtc that are used; each returns 0 on success.
struct Nvrtc {
  explicit Nvrtc(const char* path) : library(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (library == nullptr) throw std::runtime_error(dlerror());
    load(create, "nvrtcCreateProgram");
    load(compile, "nvrtcCompileProgram");
    load(log_size, "nvrtcGetProgramLogSize");
    load(log, "nvrtcGetProgramLog");
    load(cubin_size, "nvrtcGetCUBINSize");
    load(error_text, "nvrtcGetErrorString");
  }
  template <class Function> void load(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(dlerror());
  }
  void check(int status, const char* call) const {
    if (status != 0) throw std::runtime_error(std::string(call) + ": " + error_text(status));
  }

  void* library;
  int (*create)(Program*, const char* source, const char* name, int headers,
                const char* const* header_texts, const char* const* header_names);
  int (*compile)(Program, int options, const char* const* option_texts);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, std::size_t*);
  const char* (*error_text)(int);
};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

// Size of the cubin in bytes.
std::size_t compile(const Nvrtc& nvrtc, const std::string& source, const std::string& arch,
                    const std::vector<std::string>& names, const std::vector<std::string>& texts) {
  Program program;
  nvrtc.check(nvrtc.create(&program, source.c_str(), "score_kernel.cu", int(names.size()),
                           pointers(texts).data(), pointers(names).data()),
              "nvrtcCreateProgram");
  // Without --no-source-include NVRTC would also look in the working directory.
  const std::vector<std::string> options = {"--gpu-architecture=" + arch, "--std=c++20",
                                            "--no-source-include"};
  const int status = nvrtc.compile(program, int(options.size()), pointers(options).data());
  std::size_t log_bytes = 0;
  nvrtc.check(nvrtc.log_size(program, &log_bytes), "nvrtcGetProgramLogSize");
  std::string log(log_bytes, '\0');
  nvrtc.check(nvrtc.log(program, log.data()), "nvrtcGetProgramLog");
  if (log_bytes > 1) std::fprintf(stderr, "%s\n", log.c_str());
  nvrtc.check(status, "nvrtcCompileProgram");
  if (log_bytes > 1) throw std::runtime_error("NVRTC warned: each warning is an error here");
  std::size_t cubin_bytes = 0;
  nvrtc.check(nvrtc.cubin_size(program, &cubin_bytes), "nvrtcGetCUBINSize");
  if (cubin_bytes == 0) throw std::runtime_error("NVRTC made no cubin for " + arch);
  return cubin_bytes;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 6) throw std::runtime_error("usage: LIBNVRTC INCLUDE_DIR SOURCE ARCH HEADER...");
  const std::vector<std::string> names(argv + 5, argv + argc);
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(read_file(argv[2] + ("/" + name)));
  const std::size_t bytes = compile(Nvrtc(argv[1]), read_file(argv[3]), argv[4], names, texts);
  std::printf("NVRTC: %s, cubin of %zu bytes\n", argv[4], bytes);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "compile_with_nvrtc: %s\n", error.what());
  return 1;
}
