#include "cuda/jit/nvrtc.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "cuda/jit/nvrtc_places.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda::jit {

namespace {

// Nothing but the texts given is read: without --no-source-include NVRTC would look in the working
// directory too.
constexpr const char* fixed_options[] = {"--std=c++20", "--device-as-default-execution-space",
                                         "--no-source-include", "--ptxas-options=-v"};

/// The log without the assembler's report, which goes to `report`.
std::string without_report(const std::string& log, std::string& report) {
  std::string rest;
  for (std::size_t begin = 0; begin < log.size();) {
    const std::size_t end = std::min(log.find('\n', begin), log.size() - 1) + 1;
    const std::string_view line = std::string_view(log).substr(begin, end - begin);
    const bool information = line.rfind("ptxas info", 0) == 0 || line.rfind("ptxas   ", 0) == 0 ||
                             line.find("bytes stack frame") != line.npos;
    (information ? report : rest) += line;
    begin = end;
  }
  return rest.find_first_not_of(" \n") == rest.npos ? std::string() : rest;
}

}  // namespace

class Nvrtc::Session {
 public:
  Session(const Nvrtc& nvrtc, const Translation& t, std::span<const KernelSource> headers)
      : nvrtc_(nvrtc) {
    std::vector<const char*> names, texts;
    for (const KernelSource& header : headers) {
      names.push_back(header.name);
      texts.push_back(header.text);
    }
    check(nvrtc.create_(&program_, t.source.c_str(), "formula.cu", int(headers.size()),
                        texts.data(), names.data()),
          "nvrtcCreateProgram");
  }
  ~Session() {
    if (program_ != nullptr) nvrtc_.destroy_(&program_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Program program() const { return program_; }
  void check(int result, const char* call) const {
    if (result == 0) return;
    const char* words = nvrtc_.error_text_(result);
    throw Error(ErrorCode::device_failed, std::string(call) + " of " + nvrtc_.path_ +
                                              " failed: " + (words != nullptr ? words : "unknown"));
  }
  /// A text or an image whose size is asked for first.
  std::string fetch(int (*size_of)(Program, std::size_t*), int (*get)(Program, char*),
                    const char* call) const {
    std::size_t bytes = 0;
    check(size_of(program_, &bytes), call);
    std::string text(bytes, '\0');
    if (bytes != 0) check(get(program_, text.data()), call);
    return text;
  }

 private:
  const Nvrtc& nvrtc_;
  Program program_ = nullptr;
};

bool Nvrtc::bind(void* library) {
  bool all = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    all = all && function != nullptr;
  };
  find(get_version_, "nvrtcVersion");
  find(create_, "nvrtcCreateProgram");
  find(destroy_, "nvrtcDestroyProgram");
  find(compile_, "nvrtcCompileProgram");
  find(log_size_, "nvrtcGetProgramLogSize");
  find(log_, "nvrtcGetProgramLog");
  find(cubin_size_, "nvrtcGetCUBINSize");
  find(cubin_, "nvrtcGetCUBIN");
  find(add_name_, "nvrtcAddNameExpression");
  find(lowered_name_, "nvrtcGetLoweredName");
  find(error_text_, "nvrtcGetErrorString");
  // 12.1 knows no __builtin_bit_cast; 12.4, 12.6, 12.8, 12.9 and 13.0 were tried.
  return all && get_version_(&major_, &minor_) == 0 && 100 * major_ + minor_ >= 1204;
}

// NVRTC opens its builtins by name alone. They lie beside it, where the loader need not look:
// opened from there, the name is found.
void Nvrtc::keep_builtins() const {
  const std::string folder = path_.substr(0, path_.rfind('/') + 1);
  dlopen((folder + "libnvrtc-builtins.so." + version()).c_str(), RTLD_NOW | RTLD_LOCAL);
}

bool Nvrtc::open(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  if (!bind(library)) {
    dlclose(library);
    return false;
  }
  // Never closed: it keeps threads and state of its own.
  Dl_info where{};
  path_ = dladdr(reinterpret_cast<void*>(create_), &where) != 0 && where.dli_fname != nullptr
              ? where.dli_fname
              : file;
  keep_builtins();
  found_ = true;
  return true;
}

Nvrtc Nvrtc::look() {
  Nvrtc nvrtc;
  if (const char* file = secure_getenv("TILEFOLD_NVRTC"); file != nullptr && *file != '\0') {
    if (!nvrtc.open(file)) {
      const char* words = dlerror();
      nvrtc.absence_ = std::string("TILEFOLD_NVRTC is '") + file +
                       "': it must be the path of libnvrtc.so of CUDA 12.4 or later" +
                       (words != nullptr ? std::string(" (") + words + ")" : std::string());
    }
    return nvrtc;
  }
  std::string looked;
  for (const NvrtcPlace& place : nvrtc_places()) {
    for (const std::string& file : place.files)
      if (nvrtc.open(file)) return nvrtc;
    looked += (looked.empty() ? "" : ", ") + place.name;
  }
  nvrtc.absence_ =
      "there is no NVRTC of CUDA 12.4 or later (libnvrtc.so.13 or .12), looked for in " + looked +
      ": install the CUDA toolkit or `pip install nvidia-cuda-nvrtc`, or set "
      "TILEFOLD_NVRTC to the library's path";
  return nvrtc;
}

std::string Nvrtc::version() const { return std::to_string(major_) + "." + std::to_string(minor_); }

std::span<const char* const> Nvrtc::options() { return fixed_options; }

Compilation Nvrtc::compile(const Translation& translation,
                           std::span<const KernelSource> headers) const {
  if (!found_) throw Error(ErrorCode::unsupported, absence_);
  const Session session(*this, translation, headers);
  const char* const kernel = translation.kernel.c_str();
  session.check(add_name_(session.program(), kernel), "nvrtcAddNameExpression");
  const std::string architecture = "--gpu-architecture=" + translation.architecture;
  std::vector<const char*> options{architecture.c_str()};
  options.insert(options.end(), std::begin(fixed_options), std::end(fixed_options));
  const int result = compile_(session.program(), int(options.size()), options.data());
  Compilation made;
  std::string report;
  std::string log = session.fetch(log_size_, log_, "nvrtcGetProgramLog");
  log.resize(std::strlen(log.c_str()));  // its zero is counted
  made.log = without_report(log, report);
  constexpr int compilation_error = 6;
  if (result == compilation_error) return made;
  session.check(result, "nvrtcCompileProgram");
  const char* lowered = nullptr;
  session.check(lowered_name_(session.program(), kernel, &lowered), "nvrtcGetLoweredName");
  made.cubin = Cubin{session.fetch(cubin_size_, cubin_, "nvrtcGetCUBIN"), lowered, report};
  return made;
}

const Nvrtc& nvrtc() {
  static const Nvrtc found = Nvrtc::look();
  return found;
}

int spilled_bytes(const std::string& report) {
  // "0 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads"
  int bytes = -1;
  for (const char* what : {" bytes spill stores", " bytes spill loads"}) {
    const std::size_t end = report.find(what);
    if (end == report.npos) return -1;
    const std::size_t begin = report.find_last_not_of("0123456789", end - 1) + 1;
    bytes = std::max(bytes, 0) + std::atoi(report.substr(begin, end - begin).c_str());
  }
  return bytes;
}

}  // namespace tilefold::cuda::jit
