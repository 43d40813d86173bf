// Fuzzes parse_safetensors: every byte string gives tensors that lie side by side inside the bytes,
// or an Error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/files/safetensors.hpp"
#include "fuzz/promise.hpp"
#include "tilefold/error.hpp"

namespace tilefold::fuzz {
namespace {

constexpr char file_name[] = "fuzz.safetensors";

bool readable(const files::StoredTensor& tensor) {
  return tensor.dtype && tensor.shape.size() <= std::size_t(TensorView::max_rank);
}

// What is written for the readable tensors is read as the same tensors.
void check_again(const files::SafetensorsIndex& index) {
  std::vector<files::NamedTensor> tensors;
  std::uint64_t bytes = 0;
  for (const files::StoredTensor& tensor : index.tensors) {
    if (!readable(tensor) || tensor.name.empty()) continue;
    tensors.push_back({tensor.name, tensor.at(nullptr, file_name)});
    bytes += tensor.bytes;
  }
  const files::SafetensorsPlan plan = files::plan_safetensors(tensors, index.metadata, file_name);
  const files::SafetensorsIndex again =
      files::parse_safetensors(std::as_bytes(std::span(plan.preamble.data(), plan.preamble.size())),
                               plan.preamble.size() + bytes, file_name);
  promise(again.metadata == index.metadata && again.tensors.size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    promise(again.tensors[i].name == tensors[plan.order[i]].name);
  }
}

void check(const files::SafetensorsIndex& index, std::size_t size) {
  std::uint64_t total = 0;
  std::uint64_t data_begin = size;
  for (const files::StoredTensor& tensor : index.tensors) {
    promise(tensor.begin <= size && tensor.bytes <= size - tensor.begin);
    total += tensor.bytes;
    data_begin = std::min(data_begin, tensor.begin);
    if (readable(tensor)) {
      const TensorView::ByteSpan span = tensor.at(nullptr, file_name).byte_span();
      promise(span.first == 0 && span.last == std::int64_t(tensor.bytes));
    }
  }
  promise(total == size - data_begin);
  check_again(index);
}

}  // namespace
}  // namespace tilefold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  tilefold::files::SafetensorsIndex index;
  try {
    index = tilefold::files::parse_safetensors(bytes, tilefold::fuzz::file_name);
  } catch (const tilefold::Error& error) {
    tilefold::fuzz::promise(error.code() == tilefold::ErrorCode::file_format);
    return 0;
  }
  // Outside the try: whatever was accepted can be written and read again.
  tilefold::fuzz::check(index, size);
  return 0;
}
