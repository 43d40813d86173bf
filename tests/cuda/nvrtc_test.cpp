// The tensor-core kernels compile where no toolkit header is: NVRTC reads their kernel.cuh to a
// cubin. Needs no GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace {

/// The few NVRTC functions needed, opened at run time as the library itself will.
struct Nvrtc {
  using Program = void*;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, std::size_t*);
  int (*destroy)(Program*);
  int (*add_name)(Program, const char*);
  bool present = false;

  Nvrtc() {
    void* library = nullptr;
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"})
      if (library == nullptr) library = dlopen(name, RTLD_NOW);
    if (library == nullptr) return;
    find(library, "nvrtcCreateProgram", create);
    find(library, "nvrtcCompileProgram", compile);
    find(library, "nvrtcGetProgramLogSize", log_size);
    find(library, "nvrtcGetProgramLog", log);
    find(library, "nvrtcGetCUBINSize", cubin_size);
    find(library, "nvrtcDestroyProgram", destroy);
    find(library, "nvrtcAddNameExpression", add_name);
    present = true;
  }
  template <class Function> static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    ASSERT_NE(function, nullptr) << name;
  }
};

/// One entry of a family's registry.
struct Entry {
  const char *folder, *space;
  int index;
};
void PrintTo(const Entry& entry, std::ostream* out) { *out << entry.space << " " << entry.index; }

class KernelNvrtc : public testing::TestWithParam<Entry> {};

TEST_P(KernelNvrtc, NeedsNoHeaderButOurs) {
  const Nvrtc nvrtc;
  if (!nvrtc.present) GTEST_SKIP() << "no libnvrtc on this machine";
  const std::string space = "tilefold::cuda::" + std::string(GetParam().space) + "::";
  const std::string kernel = space + "forward_kernel<" + space + "Choice<" + space + "registry(" +
                             std::to_string(GetParam().index) + ")>>";
  const std::string folder = "#include \"cuda/kernels/" + std::string(GetParam().folder);
  const std::string source = folder + "/kernel.cuh\"\n" + folder + "/registry.hpp\"\n";
  Nvrtc::Program program = nullptr;
  ASSERT_EQ(nvrtc.create(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr), 0);
  ASSERT_EQ(nvrtc.add_name(program, kernel.c_str()), 0);
  const std::string root = TILEFOLD_SOURCE_DIR;
  const std::string sources = "-I" + root + "/src", headers = "-I" + root + "/include";
  const char* options[] = {"--std=c++20", "--gpu-architecture=sm_90a", sources.c_str(),
                           headers.c_str()};
  const int failed = nvrtc.compile(program, 4, options);
  std::size_t bytes = 0;
  nvrtc.log_size(program, &bytes);
  std::vector<char> log(bytes + 1);
  nvrtc.log(program, log.data());
  EXPECT_EQ(failed, 0) << log.data();
  bytes = 0;
  EXPECT_EQ(nvrtc.cubin_size(program, &bytes), 0);
  EXPECT_GT(bytes, 10000u) << "a cubin of " << kernel;
  nvrtc.destroy(&program);
}

// bf16, head dimension 64: the plain formula and the changed one; and sm80 warps that share rows.
INSTANTIATE_TEST_SUITE_P(Formulas, KernelNvrtc,
                         testing::Values(Entry{"sm80", "sm80", 1}, Entry{"sm80", "sm80", 9},
                                         Entry{"sm80", "sm80", 6}, Entry{"sm90/forward", "sm90", 0},
                                         Entry{"sm90/forward", "sm90", 6}));

}  // namespace
