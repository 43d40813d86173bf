// Tensors from files and to files: the one door for callers.
//
//   files::OwnedTensor q = files::read_tensor("q.npy");
//   files::OwnedTensor k = files::read_tensor("layer.safetensors:k");
//   files::write_tensor("out.npy", out.view());
//
// The format is the file's extension, .npy or .safetensors. A tensor of a .safetensors file is
// named after a colon; a file with exactly one tensor needs no name.
//
// Errors are Error(file_io), with what the system said, and Error(file_format), with the byte
// position where there is one; both begin with the file's name. A header is believed only as far as
// the file's real size goes, so that no header makes anything larger than the file be allocated.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/files/stored_tensor.hpp"
#include "tilefold/tensor_view.hpp"

namespace tilefold::files {

/// A host tensor with memory of its own, aligned to 64 bytes. The memory lives as long as the
/// object does, wherever it is moved to; views do not keep it alive.
class OwnedTensor {
 public:
  OwnedTensor() = default;
  TensorView view() const { return view_; }
  OutputView output() { return view_; }

 private:
  friend OwnedTensor allocate(DType dtype, const Extents& shape);
  friend OwnedTensor read_tensor(const std::string& spec);
  struct Release {
    void operator()(std::byte* memory) const noexcept;
  };
  using Memory = std::unique_ptr<std::byte[], Release>;
  static Memory reserve(std::uint64_t bytes);

  Memory memory_;
  OutputView view_;
};

/// A contiguous tensor of zeros. Throws Error(shape_mismatch) for negative or overflowing extents
/// and Error(out_of_memory).
OwnedTensor allocate(DType dtype, const Extents& shape);

/// "q.npy", "file.safetensors:q" or, with one tensor in it, "file.safetensors". Arrays in Fortran
/// order keep their order in memory: the view's first axis is the one with stride 1.
OwnedTensor read_tensor(const std::string& spec);

/// Writes one tensor as a file of its own, replacing what was there. "file.safetensors" without a
/// name takes the file's: "file". Strided views are written contiguous. The file appears whole or
/// not at all. Throws Error(device_mismatch) for tensors off the host, Error(missing_argument) for
/// absent ones.
void write_tensor(const std::string& spec, const TensorView& tensor);

/// Writes a .safetensors file of several tensors, replacing what was there.
void write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                   const Metadata& metadata = {});

/// What a file holds: name, dtype and shape of each tensor, also of those that cannot be read.
std::vector<StoredTensor> list_tensors(const std::string& path);

/// The free text of a .safetensors file; empty for .npy.
Metadata metadata(const std::string& path);

}  // namespace tilefold::files
