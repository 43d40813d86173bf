// Fuzzes parse_npy: every byte string gives a description inside the bytes, or an Error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/files/npy.hpp"
#include "fuzz/promise.hpp"
#include "tilefold/error.hpp"

namespace tilefold::fuzz {
namespace {

void check(const files::StoredTensor& tensor, std::size_t size) {
  promise(tensor.begin <= size && tensor.bytes == size - tensor.begin);
  const OutputView view = tensor.at(nullptr, "fuzz.npy");
  const TensorView::ByteSpan span = view.byte_span();
  promise(span.first == 0 && span.last == std::int64_t(tensor.bytes));

  // What is written for such a tensor describes it again.
  const std::string preamble = files::npy_preamble(*tensor.dtype, view.shape(), "again.npy");
  const files::StoredTensor again =
      files::parse_npy(std::as_bytes(std::span(preamble.data(), preamble.size())),
                       preamble.size() + tensor.bytes, "again.npy");
  promise(again.dtype == tensor.dtype && again.shape == tensor.shape);
}

}  // namespace
}  // namespace tilefold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  tilefold::files::StoredTensor tensor;
  try {
    tensor = tilefold::files::parse_npy(bytes, "fuzz.npy");
    tilefold::files::check_booleans(bytes.subspan(std::size_t(tensor.begin)), tensor, "fuzz.npy");
  } catch (const tilefold::Error& error) {
    tilefold::fuzz::promise(error.code() == tilefold::ErrorCode::file_format);
    return 0;
  }
  // Outside the try: whatever was accepted can be viewed and written again.
  tilefold::fuzz::check(tensor, size);
  return 0;
}
