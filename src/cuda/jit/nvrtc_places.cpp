#include "cuda/jit/nvrtc_places.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace tilefold::cuda::jit {

namespace {

namespace fs = std::filesystem;

// Of the major versions whose cubins and options we know.
constexpr const char* sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

void add_files_in(const fs::path& folder, std::vector<std::string>& files) {
  std::error_code ignored;
  for (const char* name : sonames)
    if (fs::exists(folder / name, ignored)) files.push_back(folder / name);
}

/// A toolkit's root, as an installer, a distribution or conda lays it out.
NvrtcPlace toolkit(const fs::path& root) {
  NvrtcPlace place{root, {}};
  for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"})
    add_files_in(root / folder, place.files);
  return place;
}

/// Python's packages below a prefix: nvidia-cuda-nvrtc (CUDA 13) and nvidia-cuda-nvrtc-cu12.
NvrtcPlace wheels(const fs::path& prefix) {
  NvrtcPlace place{(prefix / "lib/python3*").string(), {}};
  std::error_code error;
  std::vector<fs::path> pythons;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix / "lib", error))
    if (entry.path().filename().string().rfind("python3", 0) == 0) pythons.push_back(entry.path());
  std::sort(pythons.rbegin(), pythons.rend());
  for (const fs::path& python : pythons)
    for (const char* packages : {"site-packages", "dist-packages"})
      for (const char* package : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"})
        add_files_in(python / packages / package, place.files);
  return place;
}

}  // namespace

std::vector<NvrtcPlace> nvrtc_places() {
  std::vector<NvrtcPlace> places{{"the loader's path", {std::begin(sonames), std::end(sonames)}}};
  const auto add = [&](NvrtcPlace place) {
    const auto same = [&](const NvrtcPlace& p) { return p.name == place.name; };
    if (std::none_of(places.begin(), places.end(), same)) places.push_back(std::move(place));
  };
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = secure_getenv(variable); root != nullptr && *root != '\0')
      add(toolkit(root));
  add(toolkit("/usr/local/cuda"));
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* prefix = secure_getenv(variable); prefix != nullptr && *prefix != '\0') {
      add(wheels(prefix));
      add(toolkit(prefix));
    }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);  // PREFIX/bin/python3.x
  if (!error && program.filename().string().rfind("python", 0) == 0)
    add(wheels(program.parent_path().parent_path()));
  return places;
}

}  // namespace tilefold::cuda::jit
