// .safetensors: what the format allows is read; every other byte string is an Error, never a crash.
#include "core/files/safetensors.hpp"

#include "files/file_bytes.hpp"

namespace tilefold::files {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

SafetensorsIndex parse(const std::string& whole) {
  return parse_safetensors(bytes_of_text(whole), "t.safetensors");
}

void expect_fault(const std::string& whole, const std::string& part) {
  expect_refusal(ErrorCode::file_format, part, [&] { parse(whole); });
  expect_refusal(ErrorCode::file_format, "t.safetensors: ", [&] { parse(whole); });
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

// A file of one tensor, F32 [2] unless told otherwise.
struct OneTensor {
  std::string dtype = "F32", shape = "[2]", offsets = "[0,8]", data = "12345678";
  std::string file() const {
    return safetensors_file("{" + entry("q", dtype, shape, offsets) + "}", data);
  }
};

TEST(Safetensors, ReadsTheHeader) {
  const std::string header = "{\"__metadata__\":{\"a\":\"b\",\"\":\"\"}," +
                             entry("q", "BF16", "[2,3]", "[4,16]") + "," +
                             entry("k", "I32", "[]", "[0,4]") + "}   ";
  const SafetensorsIndex index = parse(safetensors_file(header, std::string(16, 'x')));
  ASSERT_EQ(index.tensors.size(), 2u);
  const StoredTensor& q = index.tensors[0];
  EXPECT_EQ(q.name, "q");
  EXPECT_EQ(q.dtype, DType::bf16);
  EXPECT_THAT(q.shape, ElementsAre(2, 3));
  EXPECT_EQ(q.begin, 8 + header.size() + 4);
  EXPECT_EQ(q.bytes, 12u);
  EXPECT_THAT(index.tensors[1].shape, IsEmpty());
  EXPECT_THAT(index.metadata, ElementsAre(Pair("", ""), Pair("a", "b")));
}

TEST(Safetensors, TakesFilesWithoutTensorsAndTensorsWithoutElements) {
  EXPECT_THAT(parse(safetensors_file("{}", "")).tensors, IsEmpty());
  const std::string header =
      "{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "F32", "[0,7]", "[4,4]") + "," +
      entry("c", "F32", "[1]", "[4,8]") + "," + entry("d", "F32", "[7,0]", "[8,8]") + "," +
      entry("e", "F32", "[0]", "[0,0]") + "}";
  EXPECT_EQ(parse(safetensors_file(header, "12345678")).tensors.size(), 5u);
}

TEST(Safetensors, EveryPrefixOfAFileIsRefused) {
  const std::string whole = content_of(fixture("types.safetensors"));
  ASSERT_NO_THROW(parse(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE("cut at " + std::to_string(size));
    // A buffer of its own size: a sanitizer sees a read past it.
    const std::vector<char> part(whole.begin(), whole.begin() + std::ptrdiff_t(size));
    expect_refusal(ErrorCode::file_format, "truncated",
                   [&] { parse_safetensors(std::as_bytes(std::span(part)), "t.safetensors"); });
  }
}

TEST(Safetensors, EveryPrefixOfAHeaderIsRefused) {
  const std::string header =
      "{\"__metadata__\":{\"a\":\"b\"}," + entry("q", "F32", "[2]", "[0,8]") + "}";
  ASSERT_NO_THROW(parse(safetensors_file(header, "12345678")));
  for (std::size_t size = 0; size < header.size(); ++size) {
    SCOPED_TRACE(header.substr(0, size));
    expect_fault(safetensors_file(header.substr(0, size), "12345678"), "the header");
  }
}

TEST(Safetensors, BoundsTheHeaderLength) {
  expect_fault(little_endian(100'000'001, 8) + "{}", "at byte 0 is 100000001: at most 100000000");
  expect_fault(little_endian(~std::uint64_t{0}, 8) + "{}", "at byte 0 is 18446744073709551615");
  expect_fault(little_endian(100'000'000, 8) + "{}",
               "truncated: the header ends at byte 100000008");
  expect_fault(little_endian(0, 8), "must begin with '{'");
}

TEST(Safetensors, RefusesTextThatIsNoHeader) {
  const auto refused = [](const std::string& header, const std::string& part) {
    SCOPED_TRACE(header.substr(0, 100));
    expect_fault(safetensors_file(header, ""), part);
  };
  refused("[]", "must begin with '{'");
  refused(" {}", "must begin with '{'");
  refused("{} x", "no valid JSON at byte 11");
  refused("{}{}", "no valid JSON at byte 10");
  refused("{\"a\"}", "no valid JSON at byte 12");
  refused("{\"\xff\":1}", "no valid JSON at byte 10");
  refused("{'a':1}", "no valid JSON at byte 9");
  refused("{\"a\":1}", "'a' holds a number: it must hold an object");
  refused("{\"a\":null}", "'a' holds null");
  refused("{\"a\":[]}", "'a' holds a list");
  refused(std::string("{}\0{", 4), "a NUL at byte 10");
  refused(std::string("{\"a\0\":1}", 8), "a NUL at byte 11");
  refused("{\"a\\u0000b\":{}}", "the name 'a\\x00b' holds a NUL");
  refused("{\"__metadata__\":{\"a\\u0000\":\"\"}}", "holds a NUL");
  refused("{\"__metadata__\":\"a\"}", "holds a string: it must hold an object");
  refused("{\"__metadata__\":{\"a\":1}}", "metadata 'a' holds a number: it must hold a string");
  refused("{\"__metadata__\":{\"a\":{}}}", "metadata 'a' holds an object");
}

TEST(Safetensors, DeepNestingCostsNothing) {
  const std::size_t depth = 1'000'000;
  expect_fault(safetensors_file("{\"a\":" + std::string(depth, '['), ""), "'a' holds a list");
  std::string objects = "{";
  for (std::size_t i = 0; i < depth; ++i) objects += "\"a\":{";
  expect_fault(safetensors_file(objects, ""), "is none of dtype, shape, data_offsets");
  expect_fault(safetensors_file("{\"q\":{\"shape\":" + std::string(depth, '['), ""),
               "tensor 'q': 'shape' holds a list");
}

TEST(Safetensors, RefusesNamesThatStandTwice) {
  const std::string q = entry("q", "F32", "[1]", "[0,4]");
  expect_fault(safetensors_file("{" + q + "," + q + "}", "1234"), "the name 'q' stands twice");
  expect_fault(
      safetensors_file("{\"\\u0071\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}," +
                           entry("q", "F32", "[1]", "[4,8]") + "}",
                       "12345678"),
      "the name 'q' stands twice");
  expect_fault(safetensors_file("{\"__metadata__\":{},\"__metadata__\":{}}", ""), "stands twice");
  expect_fault(safetensors_file("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", ""),
               "the metadata name 'a' stands twice");
  expect_fault(safetensors_file("{\"q\":{\"dtype\":\"F32\",\"dtype\":\"F16\"}}", ""),
               "'dtype' stands twice");
}

TEST(Safetensors, RefusesIncompleteAndStrangeEntries) {
  const auto refused = [](const std::string& fields, const std::string& part) {
    SCOPED_TRACE(fields);
    expect_fault(safetensors_file("{\"q\":{" + fields + "}}", ""), part);
  };
  refused("", "tensor 'q' has no 'dtype'");
  refused("\"dtype\":\"F32\",\"data_offsets\":[0,4]", "has no 'shape'");
  refused("\"dtype\":\"F32\",\"shape\":[]", "has no 'data_offsets'");
  refused("\"strides\":[1]", "'strides' is none of");
  refused("\"dtype\":7", "'dtype' holds a number: it must hold a string");
  refused("\"dtype\":[]", "'dtype' holds a list");
  refused("\"shape\":\"x\"", "'shape' holds a string: it must hold a list of numbers");
  refused("\"shape\":[true]", "'shape' holds a boolean: it must hold whole numbers");
  refused("\"shape\":[\"2\"]", "'shape' holds a string");
}

TEST(Safetensors, RefusesShapesThatAreNone) {
  expect_fault(OneTensor{.shape = "[-2]"}.file(), "'shape' holds a negative number");
  expect_fault(OneTensor{.shape = "[2.0]"}.file(), "'shape' holds the number '2.0'");
  expect_fault(OneTensor{.shape = "[1e3]"}.file(), "'shape' holds the number '1e3'");
  expect_fault(OneTensor{.shape = "[9223372036854775808]"}.file(), "overflows 2^63 - 1");
  expect_fault(OneTensor{.shape = "[99999999999999999999999]"}.file(), "holds the number");
  expect_fault(OneTensor{.shape = "[1e999]"}.file(), "no valid JSON");
  expect_fault(OneTensor{.shape = "[4294967296,4294967296]"}.file(), "its size overflows");
  expect_fault(OneTensor{.shape = "[0,4294967296,4294967296]"}.file(), "its size overflows");
  // 2^62 elements of 4 bytes are 0 bytes modulo 2^64.
  expect_fault(OneTensor{.shape = "[4611686018427387904]", .offsets = "[0,0]", .data = ""}.file(),
               "its size overflows");
  std::string axes = "[1";
  for (int i = 1; i < 65; ++i) axes += ",1";
  expect_fault(OneTensor{.shape = axes + "]"}.file(), "more than 64 axes");
  expect_fault(OneTensor{.dtype = "F4", .shape = "[3]", .offsets = "[0,2]", .data = "12"}.file(),
               "fills no whole bytes");
}

TEST(Safetensors, RefusesOffsetsThatDoNotFit) {
  expect_fault(OneTensor{.offsets = "[0,4]", .data = "1234"}.file(),
               "data_offsets are [0, 4], which is 4 bytes: F32 [2] needs 8");
  expect_fault(OneTensor{.offsets = "[8,0]"}.file(), "the end is before the begin");
  expect_fault(OneTensor{.offsets = "[0]"}.file(), "must be two numbers");
  expect_fault(OneTensor{.offsets = "[0,8,8]"}.file(), "must be two numbers");
  expect_fault(OneTensor{.offsets = "[-8,0]"}.file(), "a negative number");
  expect_fault(OneTensor{.data = "1234567"}.file(),
               "truncated: tensor 'q' ends at data byte 8, the file holds 7");
  expect_fault(OneTensor{.data = "123456789"}.file(), "the rest belongs to no tensor");
  expect_fault(OneTensor{.offsets = "[1,9]", .data = "123456789"}.file(),
               "the bytes from 0 on belong to no tensor");
  expect_fault(OneTensor{.offsets = "[18446744073709551608,18446744073709551616]"}.file(),
               "holds the number");
  expect_fault(OneTensor{.offsets = "[18446744073709551607,18446744073709551615]"}.file(),
               "belong to no tensor");
}

TEST(Safetensors, RefusesOverlapsAndGaps) {
  const auto pair = [](const std::string& first, const std::string& second) {
    return safetensors_file(
        "{" + entry("a", "F32", "[2]", first) + "," + entry("b", "F32", "[2]", second) + "}",
        std::string(16, 'x'));
  };
  ASSERT_NO_THROW(parse(pair("[0,8]", "[8,16]")));
  ASSERT_NO_THROW(parse(pair("[8,16]", "[0,8]")));
  expect_fault(pair("[0,8]", "[4,12]"), "tensor 'b' begins at data byte 4: it overlaps");
  expect_fault(pair("[0,8]", "[0,8]"), "overlaps");
  expect_fault(pair("[0,8]", "[9,17]"), "tensor 'b' begins at data byte 9: the bytes from 8 on");
}

TEST(Safetensors, UnreadTypesAreListed) {
  const StoredTensor known =
      parse(OneTensor{.dtype = "I16", .shape = "[4]"}.file()).tensors.front();
  EXPECT_EQ(known.type, "I16");
  EXPECT_FALSE(known.dtype.has_value());
  expect_fault(OneTensor{.dtype = "I16", .shape = "[3]"}.file(), "I16 [3] needs 6");
  const StoredTensor unknown =
      parse(OneTensor{.dtype = "X9", .shape = "[3]"}.file()).tensors.front();
  expect_refusal(ErrorCode::file_format, "type 'X9', which tilefold does not read: it reads F64",
                 [&] { unknown.at(nullptr, "t.safetensors"); });
  const StoredTensor high = parse(OneTensor{.shape = "[2,1,1,1,1,1,1]"}.file()).tensors.front();
  expect_refusal(ErrorCode::file_format, "tensor 'q' has 7 axes",
                 [&] { high.at(nullptr, "t.safetensors"); });
}

TEST(Safetensors, AMessageShowsNamesFromTheFileAsText) {
  expect_fault(safetensors_file("{\"a\\u001b[2J\":1}", ""), "'a\\x1b[2J'");
  expect_fault(safetensors_file("{\"" + std::string(5000, 'a') + "\":1}", ""),
               "'" + std::string(100, 'a') + "...'");
}

TEST(Safetensors, ThePlanIsReadBackAndAligned) {
  const double wide[2] = {};
  const std::int8_t narrow[3] = {};
  const std::vector<NamedTensor> tensors{{"n\"\n\xc3\xa9", TensorView(narrow, {3})},
                                         {"w", TensorView(wide, {1, 2})},
                                         {"none", TensorView(wide, {0, 2})}};
  const Metadata metadata{{"key \"1\"", "value\n"}};
  const SafetensorsPlan plan = plan_safetensors(tensors, metadata, "t.safetensors");
  EXPECT_EQ(plan.preamble.size() % 64, 0u);
  EXPECT_THAT(plan.order, ElementsAre(1, 2, 0));
  const SafetensorsIndex index = parse(plan.preamble + std::string(19, 'x'));
  ASSERT_EQ(index.tensors.size(), 3u);
  EXPECT_EQ(index.metadata, metadata);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(index.tensors[i].name, tensors[plan.order[i]].name);
    EXPECT_EQ(index.tensors[i].begin % std::uint64_t(bytes_of(*index.tensors[i].dtype)), 0u);
  }
}

TEST(Safetensors, ThePlanRefusesNamesThatCannotBeRead) {
  const float data[1] = {};
  const TensorView view(data, {1});
  const auto refused = [&](const std::vector<NamedTensor>& tensors, const Metadata& metadata,
                           const std::string& part) {
    expect_refusal(ErrorCode::file_format, part,
                   [&] { plan_safetensors(tensors, metadata, "t.safetensors"); });
  };
  refused({{"", view}}, {}, "has no name");
  refused({{"a", view}, {"a", view}}, {}, "'a' stands twice");
  refused({{"__metadata__", view}}, {}, "no tensor can have the name");
  refused({{std::string("a\0b", 3), view}}, {}, "holds a NUL");
  refused({{"\xff", view}}, {}, "is not UTF-8");
  refused({{"a", view}}, {{"k", "\xff"}}, "is not UTF-8");
}

}  // namespace
}  // namespace tilefold::files
