// .npy: what NumPy writes is read as NumPy means it; every other byte string is an Error, never a
// crash.
#include "core/files/npy.hpp"

#include "files/file_bytes.hpp"

namespace tilefold::files {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StoredTensor parse(const std::string& whole) { return parse_npy(bytes_of_text(whole), "t.npy"); }

void expect_fault(const std::string& whole, const std::string& part) {
  expect_refusal(ErrorCode::file_format, part, [&] { parse(whole); });
  expect_refusal(ErrorCode::file_format, "t.npy: ", [&] { parse(whole); });
}

std::string described(const std::string& descr, const std::string& order,
                      const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

TEST(Npy, ReadsTheDescription) {
  const StoredTensor t =
      parse(npy_file(described("'<f4'", "True", "(2, 3)"), std::string(24, 'x')));
  EXPECT_EQ(t.dtype, DType::f32);
  EXPECT_EQ(t.type, "<f4");
  EXPECT_EQ(t.order, AxisOrder::first_fastest);
  EXPECT_THAT(t.shape, ElementsAre(2, 3));
  EXPECT_EQ(t.bytes, 24u);
  EXPECT_EQ(t.begin, 10 + described("'<f4'", "True", "(2, 3)").size());
}

TEST(Npy, FortranStridesStartAtTheFirstAxis) {
  const StoredTensor t =
      parse(npy_file(described("'<f8'", "True", "(2, 3, 4)"), std::string(192, 'x')));
  double memory[24] = {};
  const OutputView view = t.at(memory, "t.npy");
  EXPECT_EQ(view.strides(), (Extents{1, 2, 6}));
}

TEST(Npy, TakesPythonsFreedomOfSpelling) {
  for (const std::string header : {
           "{'descr':'<i4','fortran_order':False,'shape':(2,)}",
           "{\"descr\": \"<i4\", \"fortran_order\": False, \"shape\": (2,),}",
           " { 'shape' : ( 2 , ) , 'fortran_order' : False , 'descr' : '<i4' } \n",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (2L,), }",
       }) {
    const StoredTensor t = parse(npy_file(header, "12345678"));
    EXPECT_EQ(t.dtype, DType::i32) << header;
    EXPECT_THAT(t.shape, ElementsAre(2)) << header;
  }
  EXPECT_THAT(parse(npy_file(described("'|b1'", "False", "()"), "1")).shape, IsEmpty());
  EXPECT_EQ(parse(npy_file(described("'<u1'", "False", "(1,)"), "1")).dtype, DType::u8);
}

TEST(Npy, EveryPrefixOfAFileIsRefused) {
  for (const char* version : {"f4.npy", "version2.npy", "version3.npy"}) {
    const std::string whole = content_of(fixture(version));
    ASSERT_NO_THROW(parse(whole));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      SCOPED_TRACE(std::string(version) + " cut at " + std::to_string(size));
      // A buffer of its own size: a sanitizer sees a read past it.
      const std::vector<char> part(whole.begin(), whole.begin() + std::ptrdiff_t(size));
      expect_refusal(ErrorCode::file_format, "truncated",
                     [&] { parse_npy(std::as_bytes(std::span(part)), "t.npy"); });
    }
  }
}

TEST(Npy, EveryPrefixOfAHeaderIsRefused) {
  const std::string header = described("'<f4'", "False", "(2, 3)");
  const std::size_t closed = header.rfind('}') + 1;
  for (std::size_t size = 0; size < closed; ++size) {
    SCOPED_TRACE(header.substr(0, size));
    expect_fault(npy_file(header.substr(0, size), std::string(24, 'x')), "malformed at byte");
  }
}

TEST(Npy, TellsPromisedFromHeldBytes) {
  expect_fault(npy_file(described("'<f4'", "False", "(1024,)"), std::string(1000, 'x')),
               "t.npy: truncated: the header promises 4096 bytes of data, the file holds 1000");
  expect_fault(npy_file(described("'<f4'", "False", "(2,)"), "123456789"), "and nothing after it");
}

TEST(Npy, RefusesOtherMagicAndVersions) {
  const std::string good = npy_file(described("'|i1'", "False", "()"), "1");
  std::string bad = good;
  bad[0] = 'N';
  expect_fault(bad, "not a .npy file");
  expect_fault("PK\x03\x04", "not a .npy file");
  for (const auto& [major, minor] : {std::pair{0, 0}, std::pair{4, 0}, std::pair{1, 1}}) {
    bad = good;
    bad[6] = char(major);
    bad[7] = char(minor);
    expect_fault(bad,
                 "version at byte 6 is " + std::to_string(major) + "." + std::to_string(minor));
  }
}

TEST(Npy, BoundsTheHeaderLength) {
  const std::string start("\x93NUMPY\x02\x00", 8);
  expect_fault(start + little_endian(0xffffffff, 4), "the header length at byte 8 is 4294967295");
  expect_fault(start + little_endian(1000, 4) + "{", "truncated: the header ends at byte 1012");
}

TEST(Npy, NamesTheElementsItRefuses) {
  const auto refused = [](const std::string& descr, const std::string& part) {
    SCOPED_TRACE(descr);
    expect_fault(npy_file(described(descr, "False", "(2,)"), "12345678"), part);
  };
  refused("'>f4'", "big-endian ('>f4')");
  refused("'>i1'", "big-endian");
  refused("'|O'", "Python objects");
  refused("[('x', '<f4'), ('y', '<i4')]", "structured");
  refused("('<f4', (2,))", "structured");
  refused("'<V2'", "store bf16 and fp8 as .safetensors");
  refused("'bfloat16'", "store bf16 and fp8 as .safetensors");
  refused("'<c8'", "'<c8': tilefold reads <f8");
  refused("'<U2'", "tilefold reads");
  refused("'<u4'", "tilefold reads");
  refused("'f4'", "tilefold reads");
  refused("'|f4'", "tilefold reads");
  refused("''", "tilefold reads");
}

TEST(Npy, NamesTheShapeItRefuses) {
  const auto refused = [](const std::string& shape, const std::string& part) {
    SCOPED_TRACE(shape);
    expect_fault(npy_file(described("'<f4'", "False", shape), "12345678"), part);
  };
  refused("(-2,)", "negative extent");
  refused("(2)", "needs a comma");
  refused("(2 3)", "commas");
  refused("2", "'(' is expected");
  refused("(2.0,)", "commas");
  refused("(True,)", "must be a number");
  refused("(1, 1, 1, 1, 1, 1, 2)", "more than 6 axes");
  refused("(9223372036854775808,)", "more than 2^63 - 1");
  refused("(99999999999999999999999999,)", "more than 2^63 - 1");
  refused("(9223372036854775807,)", "too large");
  refused("(4294967296, 4294967296)", "too large");
  refused("(0, 4294967296, 4294967296)", "too large");
  refused("(1152921504606846976,)", "too large");
  refused("(144115188075855872,)", "promises 576460752303423488 bytes");
}

TEST(Npy, RefusesOtherDictionaries) {
  expect_fault(npy_file("{'descr': '<f4', 'fortran_order': False, }", ""), "has no 'shape'");
  expect_fault(npy_file("{}", ""), "has no 'descr'");
  expect_fault(npy_file("{'descr': '<f4', 'descr': '<f8'}", ""), "'descr' stands twice");
  expect_fault(npy_file("{'shape': (1,), 'shape': (2,)}", ""), "'shape' stands twice");
  expect_fault(npy_file("{'dtype': '<f4'}", ""), "'dtype' is none of");
  expect_fault(npy_file("{'descr': '<f\\x34'}", ""), "backslash");
  expect_fault(npy_file("{'fortran_order': 0}", ""), "True or False");
  expect_fault(npy_file(described("'<f4'", "False", "(1,)") + "x", "1234"), "something follows");
  expect_fault(npy_file(std::string("{'de\0scr': 1}", 13), ""), "'de\\x00scr' is none of");
  expect_fault(npy_file(std::string(60000, '('), ""), "'{' is expected");
  expect_fault(npy_file("{'descr': " + std::string(60000, '['), ""), "structured");
}

TEST(Npy, ThePreambleIsReadBack) {
  const Extents shapes[] = {{}, {5}, {0}, {2, 3}, {1, 2, 3, 4, 5, 6}};
  for (const Extents& shape : shapes) {
    const std::string preamble = npy_preamble(DType::boolean, shape, "t.npy");
    EXPECT_EQ(preamble.size() % 64, 0u);
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= std::size_t(extent);
    const StoredTensor t = parse(preamble + std::string(count, '\1'));
    EXPECT_EQ(t.dtype, DType::boolean);
    EXPECT_EQ(Extents(t.shape.data(), int(t.shape.size())), shape);
    EXPECT_EQ(t.begin, preamble.size());
  }
}

TEST(Npy, ThePreambleIsNumpys) {
  const std::string whole = content_of(fixture("f4.npy"));
  EXPECT_EQ(npy_preamble(DType::f32, {2, 3}, "t.npy"), whole.substr(0, whole.size() - 24));
}

TEST(Npy, HasNoCodeForBrainFloatsAndEightBits) {
  for (const DType dtype : {DType::bf16, DType::e4m3, DType::e5m2}) {
    expect_refusal(ErrorCode::file_format,
                   std::string(name(dtype)) + " elements: write a .safetensors",
                   [dtype] { npy_preamble(dtype, {2}, "t.npy"); });
  }
}

}  // namespace
}  // namespace tilefold::files
