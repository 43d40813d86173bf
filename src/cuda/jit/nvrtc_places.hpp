// Where NVRTC may lie on this machine.
#pragma once

#include <string>
#include <vector>

namespace tilefold::cuda::jit {

/// One place, and the files there, the newest version first. A folder that is none has no files.
struct NvrtcPlace {
  std::string name;  // "/usr/local/cuda", "the loader's path"
  std::vector<std::string> files;
};

/// In the order in which they are tried.
std::vector<NvrtcPlace> nvrtc_places();

}  // namespace tilefold::cuda::jit
