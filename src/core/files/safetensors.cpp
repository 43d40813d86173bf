#include "core/files/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace tilefold::files {

static_assert(std::endian::native == std::endian::little, "elements are copied as they stand");

namespace {

constexpr std::uint64_t most_header_bytes = 100'000'000;
constexpr std::size_t most_axes = 64;  // more than any library has; bounds a hostile shape's memory
constexpr std::string_view metadata_key = "__metadata__";

struct StoredType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;  // absent: the size is known, so it is checked; reading is refused
};
constexpr std::array<StoredType, 20> stored_types{{
    {"F64", 64, DType::f64},      {"F32", 32, DType::f32},      {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},    {"F8_E4M3", 8, DType::e4m3},  {"F8_E5M2", 8, DType::e5m2},
    {"I64", 64, DType::i64},      {"I32", 32, DType::i32},      {"I8", 8, DType::i8},
    {"U8", 8, DType::u8},         {"BOOL", 8, DType::boolean},  {"U64", 64, std::nullopt},
    {"U32", 32, std::nullopt},    {"U16", 16, std::nullopt},    {"I16", 16, std::nullopt},
    {"C64", 64, std::nullopt},    {"F8_E8M0", 8, std::nullopt}, {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt}, {"F6_E3M2", 6, std::nullopt},
}};

const StoredType* stored_type(std::string_view name) {
  const auto* const found = std::find_if(stored_types.begin(), stored_types.end(),
                                         [name](const StoredType& t) { return t.name == name; });
  return found == stored_types.end() ? nullptr : found;
}

std::string_view stored_name(DType dtype) {
  return std::find_if(stored_types.begin(), stored_types.end(),
                      [dtype](const StoredType& t) { return t.dtype == dtype; })
      ->name;
}

// Takes the header as the parser reads it. There is no tree, and nesting past a tensor's arrays is
// refused where it begins: hostile depth costs nothing, and names that stand twice are seen.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}
  SafetensorsIndex take() { return std::move(index_); }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::header;
    } else if (place_ == Place::header && key_ == metadata_key) {
      place_ = Place::metadata;
    } else if (place_ == Place::header) {
      place_ = Place::tensor;
      tensor_ = {};
      tensor_.name = key_;
      has_type_ = has_shape_ = has_offsets_ = false;
    } else {
      wrong("an object");
    }
    return true;
  }

  bool key(std::string& text) override {
    key_ = text;
    if (text.find('\0') != std::string::npos)
      fault(file_, "the name " + quote(text) + " holds a NUL");
    if (place_ == Place::header) {
      if (!names_.insert(text).second) fault(file_, "the name " + quote(text) + " stands twice");
    } else if (place_ == Place::metadata) {
      if (index_.metadata.count(text) != 0) {
        fault(file_, "the metadata name " + quote(text) + " stands twice");
      }
    } else {
      bool* const seen = field(text);
      if (seen == nullptr) fault(file_, here() + " is none of dtype, shape, data_offsets");
      if (*seen) fault(file_, here() + " stands twice");
      *seen = true;
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      finish_tensor();
      place_ = Place::header;
    } else {
      place_ = place_ == Place::metadata ? Place::header : Place::outside;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || key_ == "dtype") wrong("a list");
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    offset_count_ = 0;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && offset_count_ != 2)
      fault(file_, here() + " must be two numbers");
    place_ = Place::tensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (tensor_.shape.size() == most_axes) {
        fault(file_, here() + " has more than " + std::to_string(most_axes) + " axes");
      }
      if (value > number_unsigned_t(std::numeric_limits<std::int64_t>::max())) {
        fault(file_,
              here() + " has the extent " + std::to_string(value) + ": it overflows 2^63 - 1");
      }
      tensor_.shape.push_back(std::int64_t(value));
    } else if (place_ == Place::offsets) {
      if (offset_count_ == 2) fault(file_, here() + " must be two numbers");
      offsets_[offset_count_++] = value;
    } else {
      wrong("a number");
    }
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::metadata) {
      index_.metadata[key_] = text;
    } else if (place_ == Place::tensor && key_ == "dtype") {
      tensor_.type = text;
    } else {
      wrong("a string");
    }
    return true;
  }

  bool null() override { wrong("null"); }
  bool boolean(bool) override { wrong("a boolean"); }
  bool number_integer(number_integer_t) override { wrong("a negative number"); }
  bool number_float(number_float_t, const std::string& text) override {
    wrong("the number " + quote(text));
  }
  bool binary(binary_t&) override { wrong("binary data"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    // `position` counts the characters read, the offending one included.
    fault(file_,
          "the header is no valid JSON at byte " +
              std::to_string(safetensors_prefix_bytes + std::max<std::size_t>(position, 1) - 1));
  }

 private:
  enum class Place { outside, header, metadata, tensor, shape, offsets };

  bool* field(std::string_view text) {
    if (text == "dtype") return &has_type_;
    if (text == "shape") return &has_shape_;
    return text == "data_offsets" ? &has_offsets_ : nullptr;
  }

  // Where the reader stands: "tensor 'q': 'shape'".
  std::string here() const {
    switch (place_) {
      case Place::outside: return "the header";
      case Place::header: return quote(key_);
      case Place::metadata: return "metadata " + quote(key_);
      default: return "tensor " + quote(tensor_.name) + ": " + quote(key_);
    }
  }

  [[noreturn]] void wrong(const std::string& found) const {
    const char* wanted = "an object";
    if (place_ == Place::metadata || (place_ == Place::tensor && key_ == "dtype")) {
      wanted = "a string";
    } else if (place_ == Place::tensor) {
      wanted = "a list of numbers";
    } else if (place_ == Place::shape || place_ == Place::offsets) {
      wanted = "whole numbers from 0 to 2^63 - 1";
    }
    fault(file_, here() + " holds " + found + ": it must hold " + wanted);
  }

  // begin and bytes are still relative to the data; check_layout() completes them.
  void finish_tensor() {
    const std::string label = "tensor " + quote(tensor_.name);
    for (const auto& [present, name] :
         {std::pair{has_type_, "dtype"}, std::pair{has_shape_, "shape"},
          std::pair{has_offsets_, "data_offsets"}}) {
      if (!present) fault(file_, label + " has no '" + name + "'");
    }
    const std::string offsets =
        "[" + std::to_string(offsets_[0]) + ", " + std::to_string(offsets_[1]) + "]";
    if (offsets_[0] > offsets_[1]) {
      fault(file_, label + ": data_offsets are " + offsets + ": the end is before the begin");
    }
    tensor_.begin = offsets_[0];
    tensor_.bytes = offsets_[1] - offsets_[0];
    const StoredType* const type = stored_type(tensor_.type);
    const std::string what = tensor_.type + " " + text_of(tensor_.shape);
    // Elements of unknown width: only the product itself can be checked.
    const std::optional<std::uint64_t> wanted = stored_bytes(tensor_.shape, type ? type->bits : 8);
    if (!wanted) {
      fault(file_,
            label + ": " + what + " is too large, its size overflows, or fills no whole bytes");
    }
    if (type != nullptr) {
      tensor_.dtype = type->dtype;
      if (tensor_.bytes != *wanted) {
        fault(file_, label + ": data_offsets are " + offsets + ", which is " +
                         std::to_string(tensor_.bytes) + " bytes: " + what + " needs " +
                         std::to_string(*wanted));
      }
    }
    index_.tensors.push_back(std::move(tensor_));
  }

  const std::string& file_;
  SafetensorsIndex index_;
  std::unordered_set<std::string> names_;
  Place place_ = Place::outside;
  std::string key_;
  StoredTensor tensor_;
  bool has_type_ = false, has_shape_ = false, has_offsets_ = false;
  std::array<std::uint64_t, 2> offsets_{};
  std::size_t offset_count_ = 0;
};

// Tensors must lie side by side from the first byte of the data to the last.
void check_layout(std::vector<StoredTensor>& tensors, std::uint64_t data_begin,
                  std::uint64_t file_size, const std::string& file) {
  const std::uint64_t held = file_size - data_begin;
  std::vector<StoredTensor*> sorted;
  for (StoredTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(a->begin, a->bytes) < std::pair(b->begin, b->bytes);
  });
  std::uint64_t covered = 0;
  for (StoredTensor* const tensor : sorted) {
    const std::string label = "tensor " + quote(tensor->name);
    if (tensor->begin < covered) {
      fault(file, label + " begins at data byte " + std::to_string(tensor->begin) +
                      ": it overlaps the tensor that ends at " + std::to_string(covered));
    }
    if (tensor->begin > covered) {
      fault(file, label + " begins at data byte " + std::to_string(tensor->begin) +
                      ": the bytes from " + std::to_string(covered) + " on belong to no tensor");
    }
    covered += tensor->bytes;  // cannot wrap: begin + bytes was an offset
    if (covered > held) {
      fault(file, "truncated: " + label + " ends at data byte " + std::to_string(covered) +
                      ", the file holds " + std::to_string(held) + " bytes of data");
    }
    tensor->begin += data_begin;
  }
  if (covered < held) {
    fault(file, "the tensors end at data byte " + std::to_string(covered) + ", the file holds " +
                    std::to_string(held) + " bytes of data: the rest belongs to no tensor");
  }
}

std::string json_string(const std::string& text, const std::string& file) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fault(file, "the text " + quote(text) + " is not UTF-8");
  }
}

void check_names(std::span<const NamedTensor> tensors, const std::string& file) {
  std::unordered_set<std::string> names;
  for (const NamedTensor& named : tensors) {
    if (named.name.empty()) fault(file, "a tensor to be written has no name");
    if (named.name.find('\0') != std::string::npos) {
      fault(file, "the name " + quote(named.name) + " holds a NUL");
    }
    if (named.name == metadata_key) fault(file, "no tensor can have the name '__metadata__'");
    if (!names.insert(named.name).second) {
      fault(file, "the name " + quote(named.name) + " stands twice");
    }
  }
}

std::string metadata_json(const Metadata& metadata, const std::string& file) {
  std::string text = json_string(std::string(metadata_key), file) + ":{";
  for (const auto& [key, value] : metadata) {
    if (key.find('\0') != std::string::npos) fault(file, "the name " + quote(key) + " holds a NUL");
    if (text.back() != '{') text += ',';
    text += json_string(key, file) + ":" + json_string(value, file);
  }
  return text + "}";
}

}  // namespace

std::uint64_t safetensors_data_begin(std::span<const std::byte> prefix, std::uint64_t file_size,
                                     const std::string& file) {
  if (prefix.size() < safetensors_prefix_bytes) {
    fault(file, "truncated: the file holds " + std::to_string(prefix.size()) +
                    " bytes, the length of its header alone takes 8");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < safetensors_prefix_bytes; ++i) {
    length |= std::to_integer<std::uint64_t>(prefix[i]) << (8 * i);
  }
  if (length > most_header_bytes) {
    fault(file, "the header length at byte 0 is " + std::to_string(length) + ": at most " +
                    std::to_string(most_header_bytes) + " is allowed");
  }
  if (safetensors_prefix_bytes + length > file_size) {
    fault(file, "truncated: the header ends at byte " +
                    std::to_string(safetensors_prefix_bytes + length) + ", the file holds " +
                    std::to_string(file_size) + " bytes");
  }
  return safetensors_prefix_bytes + length;
}

SafetensorsIndex parse_safetensors(std::span<const std::byte> head, std::uint64_t file_size,
                                   const std::string& file) {
  const std::uint64_t data_begin = safetensors_data_begin(head, file_size, file);
  if (data_begin > head.size()) fault(file, "truncated: the header is not all there");
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + safetensors_prefix_bytes,
                              std::size_t(data_begin) - safetensors_prefix_bytes);
  if (!text.starts_with('{')) fault(file, "the header at byte 8 must begin with '{'");
  // nlohmann's lexer takes a NUL for the end of the text and would not look at what follows it.
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    fault(file, "the header holds a NUL at byte " + std::to_string(safetensors_prefix_bytes + nul));
  }
  HeaderReader reader(file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  SafetensorsIndex index = reader.take();
  check_layout(index.tensors, data_begin, file_size, file);
  return index;
}

SafetensorsIndex parse_safetensors(std::span<const std::byte> whole, const std::string& file) {
  return parse_safetensors(whole, whole.size(), file);
}

SafetensorsPlan plan_safetensors(std::span<const NamedTensor> tensors, const Metadata& metadata,
                                 const std::string& file) {
  check_names(tensors, file);
  SafetensorsPlan plan;
  plan.order.resize(tensors.size());
  std::iota(plan.order.begin(), plan.order.end(), std::size_t{0});
  std::stable_sort(plan.order.begin(), plan.order.end(), [&](std::size_t a, std::size_t b) {
    return bytes_of(tensors[a].tensor.dtype()) > bytes_of(tensors[b].tensor.dtype());
  });

  std::string header = "{";
  if (!metadata.empty()) header += metadata_json(metadata, file);
  std::uint64_t begin = 0;
  for (const std::size_t i : plan.order) {
    const TensorView& tensor = tensors[i].tensor;
    const std::uint64_t end =
        begin + std::uint64_t(tensor.element_count()) * std::uint64_t(bytes_of(tensor.dtype()));
    const std::span<const std::int64_t> shape(tensor.shape().begin(), tensor.shape().end());
    if (header.size() > 1) header += ',';
    header += json_string(tensors[i].name, file) + ":{\"dtype\":\"" +
              std::string(stored_name(tensor.dtype())) + "\",\"shape\":" + text_of(shape) +
              ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
    begin = end;
  }
  header += '}';
  header.append((64 - (safetensors_prefix_bytes + header.size()) % 64) % 64, ' ');
  if (header.size() > most_header_bytes) {
    fault(file, "its header would have " + std::to_string(header.size()) + " bytes: at most " +
                    std::to_string(most_header_bytes) + " is allowed");
  }
  for (std::size_t i = 0; i < safetensors_prefix_bytes; ++i) {
    plan.preamble += char((std::uint64_t(header.size()) >> (8 * i)) & 0xff);
  }
  plan.preamble += header;
  return plan;
}

}  // namespace tilefold::files
