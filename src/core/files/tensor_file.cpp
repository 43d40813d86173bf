#include "core/files/tensor_file.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/files/disk_file.hpp"
#include "core/files/npy.hpp"
#include "core/files/safetensors.hpp"
#include "tilefold/error.hpp"

namespace tilefold::files {

namespace {

constexpr std::size_t alignment = 64;  // a cache line, and the widest vector register

enum class Format { npy, safetensors };

// "dir/file.safetensors:q" in its parts.
struct Spec {
  std::string path;
  Format format;
  std::optional<std::string> tensor;
};

Spec parse_spec(const std::string& text) {
  constexpr std::string_view npy = ".npy", safetensors = ".safetensors";
  // Colons may stand in directories and in tensor names: the one that counts follows the extension.
  const std::size_t at = text.find(".safetensors:");
  if (at != std::string::npos) {
    Spec spec{text.substr(0, at + safetensors.size()), Format::safetensors,
              text.substr(at + safetensors.size() + 1)};
    if (spec.tensor->empty()) fault(spec.path, "a tensor's name must follow the colon");
    return spec;
  }
  if (text.ends_with(safetensors)) return {text, Format::safetensors, std::nullopt};
  if (text.ends_with(npy)) return {text, Format::npy, std::nullopt};
  if (text.find(".npy:") != std::string::npos) {
    fault(text,
          "a .npy file holds one tensor, which has no name: leave out the colon and the name");
  }
  fault(text, "unknown extension: the name must end with .npy or .safetensors");
}

Spec parse_path(const std::string& path) {
  Spec spec = parse_spec(path);
  if (spec.tensor) fault(path, "a file's name is expected, without a tensor's");
  return spec;
}

// The first `count` bytes of a file, or all of a shorter one.
std::vector<std::byte> first_bytes(const InputFile& file, std::uint64_t count) {
  std::vector<std::byte> bytes(std::size_t(std::min(count, file.size())));
  file.read(0, bytes);
  return bytes;
}

SafetensorsIndex read_index(const InputFile& file, Format format) {
  if (format == Format::npy) {
    const std::uint64_t end =
        npy_data_begin(first_bytes(file, npy_prefix_bytes), file.size(), file.path());
    return {{parse_npy(first_bytes(file, end), file.size(), file.path())}, {}};
  }
  const std::uint64_t end =
      safetensors_data_begin(first_bytes(file, safetensors_prefix_bytes), file.size(), file.path());
  return parse_safetensors(first_bytes(file, end), file.size(), file.path());
}

std::string some_names(const std::vector<StoredTensor>& tensors) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, tensors.size()); ++i) {
    text += (i == 0 ? "" : ", ") + quote(tensors[i].name);
  }
  return tensors.size() > most ? text + ", ..." : text;
}

const StoredTensor& choose(const std::vector<StoredTensor>& tensors, const Spec& spec) {
  if (tensors.empty()) fault(spec.path, "the file holds no tensor");
  if (!spec.tensor) {
    if (tensors.size() == 1) return tensors.front();
    fault(spec.path, "the file holds " + std::to_string(tensors.size()) +
                         " tensors: name one after a colon, of " + some_names(tensors));
  }
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const StoredTensor& tensor) {
    return tensor.name == *spec.tensor;
  });
  if (found != tensors.end()) return *found;
  fault(spec.path,
        "the file holds no tensor " + quote(*spec.tensor) + ": it holds " + some_names(tensors));
}

std::span<const std::int64_t> span_of(const Extents& shape) { return {shape.begin(), shape.end()}; }

void check_writable(const TensorView& tensor, const std::string& file) {
  if (!tensor.present() || (tensor.data() == nullptr && !tensor.empty())) {
    throw Error(ErrorCode::missing_argument, file + ": the tensor to be written has no data");
  }
  if (tensor.device() != Device::cpu()) {
    throw Error(ErrorCode::device_mismatch, file + ": the tensor to be written is on " +
                                                to_string(tensor.device()) +
                                                ": copy it to the host first");
  }
  // An extent of 0 beside huge ones: no reader would take it back.
  if (!stored_bytes(span_of(tensor.shape()), bits_of(tensor.dtype()))) {
    throw Error(
        ErrorCode::shape_mismatch,
        file + ": the shape " + text_of(span_of(tensor.shape())) + " is too large for a file");
  }
}

std::span<const std::byte> bytes_in(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Gathers the elements of a strided view, in C order, block by block.
class Gather {
 public:
  Gather(OutputFile& file, const TensorView& tensor)
      : file_(file), tensor_(tensor), width_(bytes_of(tensor.dtype())) {}

  void run() {
    axis(0, 0);
    flush();
  }

 private:
  static constexpr std::size_t block_bytes = std::size_t{1} << 20;

  void axis(int number, std::int64_t offset) {
    if (number == tensor_.rank()) return elements(offset, 1);
    if (number == tensor_.rank() - 1 && tensor_.stride(number) == 1) {
      return elements(offset, tensor_.dim(number));
    }
    for (std::int64_t i = 0; i < tensor_.dim(number); ++i) {
      axis(number + 1, offset + i * tensor_.stride(number));
    }
  }

  // Neighbours in memory.
  void elements(std::int64_t offset, std::int64_t count) {
    const auto* const from = static_cast<const std::byte*>(tensor_.data()) + offset * width_;
    block_.insert(block_.end(), from, from + count * width_);
    if (block_.size() >= block_bytes) flush();
  }

  void flush() {
    file_.write(block_);
    block_.clear();
  }

  OutputFile& file_;
  const TensorView& tensor_;
  std::ptrdiff_t width_;
  std::vector<std::byte> block_;
};

void write_elements(OutputFile& file, const TensorView& tensor) {
  if (tensor.empty()) return;
  if (!tensor.contiguous()) return Gather(file, tensor).run();
  const auto bytes = std::size_t(tensor.element_count()) * std::size_t(bytes_of(tensor.dtype()));
  file.write({static_cast<const std::byte*>(tensor.data()), bytes});
}

// "dir/out.safetensors" -> "out"
std::string stem(const std::string& path) {
  const std::size_t begin = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  return path.substr(begin, path.rfind('.') - begin);
}

}  // namespace

void OwnedTensor::Release::operator()(std::byte* memory) const noexcept {
  ::operator delete[](memory, std::align_val_t{alignment});
}

OwnedTensor::Memory OwnedTensor::reserve(std::uint64_t bytes) {
  // Whole lines, and never none: a null pointer would make the view a description.
  const std::uint64_t size =
      std::max<std::uint64_t>(bytes + alignment - 1, alignment) & ~std::uint64_t{alignment - 1};
  auto* const memory = static_cast<std::byte*>(
      ::operator new[](std::size_t(size), std::align_val_t{alignment}, std::nothrow));
  if (memory == nullptr) {
    throw Error(ErrorCode::out_of_memory,
                "a tensor of " + std::to_string(bytes) + " bytes cannot be allocated");
  }
  return Memory(memory);
}

OwnedTensor allocate(DType dtype, const Extents& shape) {
  const std::optional<std::uint64_t> bytes = stored_bytes(span_of(shape), bits_of(dtype));
  if (!bytes) {
    throw Error(
        ErrorCode::shape_mismatch,
        "shape is " + text_of(span_of(shape)) +
            ": extents must not be negative, and the tensor must have less than 2^63 bytes");
  }
  OwnedTensor result;
  result.memory_ = OwnedTensor::reserve(*bytes);
  std::memset(result.memory_.get(), 0, std::size_t(*bytes));
  result.view_ = OutputView(result.memory_.get(), dtype, shape);
  return result;
}

OwnedTensor read_tensor(const std::string& spec_text) {
  const Spec spec = parse_spec(spec_text);
  const InputFile file(spec.path);
  const SafetensorsIndex index = read_index(file, spec.format);
  const StoredTensor& stored = choose(index.tensors, spec);
  stored.at(nullptr, spec.path);  // refuses what cannot be read before memory is taken
  OwnedTensor result;
  result.memory_ = OwnedTensor::reserve(stored.bytes);
  const std::span<std::byte> bytes(result.memory_.get(), std::size_t(stored.bytes));
  file.read(stored.begin, bytes);
  check_booleans(bytes, stored, spec.path);
  result.view_ = stored.at(result.memory_.get(), spec.path);
  return result;
}

void write_tensor(const std::string& spec_text, const TensorView& tensor) {
  const Spec spec = parse_spec(spec_text);
  if (spec.format == Format::safetensors) {
    return write_tensors(spec.path, {{spec.tensor.value_or(stem(spec.path)), tensor}});
  }
  check_writable(tensor, spec.path);
  const std::string preamble = npy_preamble(tensor.dtype(), tensor.shape(), spec.path);
  OutputFile file(spec.path);
  file.write(bytes_in(preamble));
  write_elements(file, tensor);
  file.commit();
}

void write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                   const Metadata& metadata) {
  if (parse_path(path).format == Format::npy) {
    fault(path, "a .npy file holds one tensor without a name: write a .safetensors file");
  }
  for (const NamedTensor& named : tensors) check_writable(named.tensor, path);
  const SafetensorsPlan plan = plan_safetensors(tensors, metadata, path);
  OutputFile file(path);
  file.write(bytes_in(plan.preamble));
  for (const std::size_t i : plan.order) write_elements(file, tensors[i].tensor);
  file.commit();
}

std::vector<StoredTensor> list_tensors(const std::string& path) {
  const Spec spec = parse_path(path);
  return read_index(InputFile(spec.path), spec.format).tensors;
}

Metadata metadata(const std::string& path) {
  const Spec spec = parse_path(path);
  return read_index(InputFile(spec.path), spec.format).metadata;
}

}  // namespace tilefold::files
