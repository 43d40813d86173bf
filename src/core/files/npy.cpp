#include "core/files/npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string_view>

namespace tilefold::files {

static_assert(std::endian::native == std::endian::little, "elements are copied as they stand");

namespace {

constexpr std::string_view magic = "\x93NUMPY";
// A readable description has some 200 bytes. The bound keeps hostile files from costing memory.
constexpr std::uint64_t most_header_bytes = std::uint64_t{1} << 20;

struct NumpyType {
  std::string_view code;  // without the byte order
  DType dtype;
};
constexpr std::array<NumpyType, 8> numpy_types{{{"f8", DType::f64},
                                                {"f4", DType::f32},
                                                {"f2", DType::f16},
                                                {"i8", DType::i64},
                                                {"i4", DType::i32},
                                                {"i1", DType::i8},
                                                {"u1", DType::u8},
                                                {"b1", DType::boolean}}};

std::string_view text_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Prefix {
  std::uint64_t header_begin, header_bytes;
};

Prefix parse_prefix(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view text = text_in(bytes);
  if (text.substr(0, magic.size()) != magic.substr(0, std::min(magic.size(), text.size()))) {
    fault(file, "not a .npy file: it must begin with the bytes 93 4e 55 4d 50 59");
  }
  const auto truncated = [&] {
    fault(file, "truncated: the file ends at byte " + std::to_string(bytes.size()) +
                    ", before the length of its header");
  };
  if (bytes.size() < 8) truncated();
  const int major = std::to_integer<int>(bytes[6]), minor = std::to_integer<int>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    fault(file, "the .npy version at byte 6 is " + std::to_string(major) + "." +
                    std::to_string(minor) + ": it must be 1.0, 2.0 or 3.0");
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (bytes.size() < 8 + length_bytes) truncated();
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= std::to_integer<std::uint64_t>(bytes[8 + i]) << (8 * i);
  }
  return {8 + length_bytes, length};
}

// Reads the one dictionary that a header is; a parser for exactly that, not for Python.
class Description {
 public:
  Description(std::string_view text, std::uint64_t begin, const std::string& file)
      : text_(text), begin_(begin), file_(file) {}

  StoredTensor parse() {
    expect('{');
    while (!take('}')) {
      parse_entry();
      if (take(',')) continue;
      expect('}');
      break;
    }
    skip_space();
    if (at_ < text_.size()) wrong("something follows the dictionary");
    for (const auto& [present, key] :
         {std::pair{has_descr_, "descr"}, std::pair{has_order_, "fortran_order"},
          std::pair{has_shape_, "shape"}}) {
      if (!present) fault(file_, std::string("the header has no '") + key + "'");
    }
    return result_;
  }

 private:
  void parse_entry() {
    const std::string_view key = string();
    expect(':');
    if (key == "descr") {
      first(has_descr_, key);
      parse_descr();
    } else if (key == "fortran_order") {
      first(has_order_, key);
      parse_order();
    } else if (key == "shape") {
      first(has_shape_, key);
      parse_shape();
    } else {
      wrong("the key " + quote(key) + " is none of descr, fortran_order, shape");
    }
  }

  void parse_descr() {
    skip_space();
    if (peek() == '[' || peek() == '(' || peek() == '{') {
      fault(file_, "its elements are structured: tilefold reads plain numbers only");
    }
    const std::string_view descr = string();
    result_.type = descr;
    const char order = descr.empty() ? '\0' : descr.front();
    const std::string_view code = descr.substr(std::min<std::size_t>(1, descr.size()));
    if (order == '>') {
      fault(file_,
            "its elements are big-endian (" + quote(descr) +
                "): store them little-endian, e.g. array.astype(array.dtype.newbyteorder('<'))");
    }
    if (code.starts_with('O')) {
      fault(file_, "its elements are Python objects (" + quote(descr) +
                       "): tilefold reads plain numbers only");
    }
    if (code.starts_with('V') || descr == "bfloat16" || descr.starts_with("float8")) {
      fault(file_,
            "its elements are " + quote(descr) +
                ", which .npy cannot tell from other bytes: store bf16 and fp8 as .safetensors");
    }
    for (const NumpyType& type : numpy_types) {
      if (code == type.code && (order == '<' || bytes_of(type.dtype) == 1)) {
        result_.dtype = type.dtype;
        return;
      }
    }
    fault(file_, "its elements are " + quote(descr) +
                     ": tilefold reads <f8, <f4, <f2, <i8, <i4, |i1, |u1 and |b1");
  }

  void parse_order() {
    skip_space();
    if (take_word("True")) {
      result_.order = AxisOrder::first_fastest;
    } else if (!take_word("False")) {
      wrong("fortran_order must be True or False");
    }
  }

  void parse_shape() {
    expect('(');
    bool comma = false;
    while (!take(')')) {
      if (!result_.shape.empty() && !comma) wrong("extents must be separated by commas");
      if (result_.shape.size() == std::size_t(TensorView::max_rank)) {
        wrong("the shape has more than " + std::to_string(TensorView::max_rank) + " axes");
      }
      result_.shape.push_back(extent());
      comma = take(',');
    }
    // In Python (3) is a number, not a tuple.
    if (result_.shape.size() == 1 && !comma) wrong("a shape of one axis needs a comma, as in (3,)");
  }

  std::int64_t extent() {
    skip_space();
    if (peek() == '-') wrong("the shape has a negative extent");
    if (!is_digit(peek())) wrong("an extent must be a number");
    std::int64_t value = 0;
    for (; is_digit(peek()); ++at_) {
      const int digit = peek() - '0';
      if (value > (std::numeric_limits<std::int64_t>::max() - digit) / 10) {
        wrong("an extent is more than 2^63 - 1");
      }
      value = value * 10 + digit;
    }
    if (peek() == 'L') ++at_;  // Python 2 wrote its long integers so
    return value;
  }

  // A string without escapes: no key and no readable descr has any.
  std::string_view string() {
    skip_space();
    const char mark = peek();
    if (mark != '\'' && mark != '"') wrong("a string is expected");
    const std::size_t begin = ++at_;
    const std::size_t end = text_.find(mark, begin);
    if (end == std::string_view::npos) wrong("a string has no end");
    const std::string_view result = text_.substr(begin, end - begin);
    if (result.find('\\') != std::string_view::npos) wrong("a string holds a backslash");
    at_ = end + 1;
    return result;
  }

  void first(bool& seen, std::string_view key) {
    if (seen) wrong("the key " + quote(key) + " stands twice");
    seen = true;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }
  bool take(char c) {
    skip_space();
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(char c) {
    if (!take(c)) wrong(std::string("'") + c + "' is expected");
  }
  [[noreturn]] void wrong(const std::string& what) const {
    fault(file_, "the header is malformed at byte " + std::to_string(begin_ + at_) + ": " + what);
  }

  std::string_view text_;
  std::uint64_t begin_;  // of text_ in the file
  const std::string& file_;
  std::size_t at_ = 0;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
  StoredTensor result_;
};

}  // namespace

std::uint64_t npy_data_begin(std::span<const std::byte> prefix, std::uint64_t file_size,
                             const std::string& file) {
  const auto [begin, bytes] = parse_prefix(prefix, file);
  if (bytes > most_header_bytes) {
    fault(file, "the header length at byte 8 is " + std::to_string(bytes) + ": at most " +
                    std::to_string(most_header_bytes) + " is allowed");
  }
  if (begin + bytes > file_size) {
    fault(file, "truncated: the header ends at byte " + std::to_string(begin + bytes) +
                    ", the file holds " + std::to_string(file_size) + " bytes");
  }
  return begin + bytes;
}

StoredTensor parse_npy(std::span<const std::byte> head, std::uint64_t file_size,
                       const std::string& file) {
  const std::uint64_t header_begin = parse_prefix(head, file).header_begin;
  const std::uint64_t data_begin = npy_data_begin(head, file_size, file);
  if (data_begin > head.size()) fault(file, "truncated: the header is not all there");
  const std::string_view text =
      text_in(head).substr(header_begin, std::size_t(data_begin - header_begin));
  StoredTensor result = Description(text, header_begin, file).parse();

  const std::optional<std::uint64_t> bytes = stored_bytes(result.shape, bits_of(*result.dtype));
  if (!bytes)
    fault(file, "the shape " + text_of(result.shape) + " is too large: its size overflows");
  const std::uint64_t held = file_size - data_begin;
  if (*bytes > held) {
    fault(file, "truncated: the header promises " + std::to_string(*bytes) +
                    " bytes of data, the file holds " + std::to_string(held));
  }
  if (*bytes < held) {
    fault(file, "the header promises " + std::to_string(*bytes) +
                    " bytes of data, the file holds " + std::to_string(held) +
                    ": a .npy file must hold one array and nothing after it");
  }
  result.begin = data_begin;
  result.bytes = *bytes;
  return result;
}

StoredTensor parse_npy(std::span<const std::byte> whole, const std::string& file) {
  return parse_npy(whole, whole.size(), file);
}

std::string npy_preamble(DType dtype, const Extents& shape, const std::string& file) {
  const auto* const type =
      std::find_if(numpy_types.begin(), numpy_types.end(),
                   [dtype](const NumpyType& candidate) { return candidate.dtype == dtype; });
  if (type == numpy_types.end()) {
    fault(file, std::string(".npy has no code for ") + name(dtype) +
                    " elements: write a .safetensors file");
  }
  std::string axes;
  for (const std::int64_t extent : shape) axes += std::to_string(extent) + ", ";
  // "(2, 3)", "(2,)" and "()".
  if (shape.size() > 0) axes.resize(axes.size() - (shape.size() == 1 ? 1 : 2));
  std::string header = std::string("{'descr': '") + (bytes_of(dtype) == 1 ? '|' : '<') +
                       std::string(type->code) + "', 'fortran_order': False, 'shape': (" + axes +
                       "), }";
  // The elements begin at a multiple of 64 bytes, as NumPy has it, so that they can be mapped.
  constexpr std::size_t prefix = 10;
  header.append(63 - (prefix + header.size()) % 64, ' ');
  header += '\n';
  const auto low = char(header.size() & 0xff), high = char(header.size() >> 8);
  return std::string(magic) + std::string{'\x01', '\x00', low, high} + header;
}

}  // namespace tilefold::files
