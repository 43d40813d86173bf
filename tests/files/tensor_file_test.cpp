// The door: every dtype, rank and stride survives a file; failures name the file and leave nothing.
#include "core/files/tensor_file.hpp"

#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "files/file_bytes.hpp"

namespace tilefold::files {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr DType all_dtypes[] = {DType::f64,  DType::f32,  DType::f16,    DType::bf16,
                                DType::e4m3, DType::e5m2, DType::i64,    DType::i32,
                                DType::i8,   DType::u8,   DType::boolean};
bool npy_has(DType dtype) { return dtype != DType::bf16 && !is_fp8(dtype); }

// Elements in C order, whatever the strides.
std::string elements_of(const TensorView& view) {
  std::string bytes;
  if (view.empty()) return bytes;
  std::vector<std::int64_t> index(std::size_t(view.rank()), 0);
  for (std::int64_t n = 0; n < view.element_count(); ++n) {
    std::int64_t offset = 0;
    for (int axis = 0; axis < view.rank(); ++axis) {
      offset += index[std::size_t(axis)] * view.stride(axis);
    }
    bytes.append(static_cast<const char*>(view.data()) + offset * bytes_of(view.dtype()),
                 std::size_t(bytes_of(view.dtype())));
    for (int axis = view.rank() - 1; axis >= 0; --axis) {
      if (++index[std::size_t(axis)] < view.dim(axis)) break;
      index[std::size_t(axis)] = 0;
    }
  }
  return bytes;
}

// Bytes that differ from their neighbours; 0 and 1 in turn where only those are allowed.
OwnedTensor patterned(DType dtype, const Extents& shape) {
  OwnedTensor tensor = allocate(dtype, shape);
  const std::int64_t count = tensor.view().element_count() * bytes_of(dtype);
  auto* const bytes = static_cast<unsigned char*>(tensor.output().data());
  for (std::int64_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<unsigned char>(dtype == DType::boolean ? i % 3 % 2 : i * 7 + 1);
  }
  return tensor;
}

void expect_same(const TensorView& got, const TensorView& want) {
  EXPECT_EQ(got.dtype(), want.dtype());
  EXPECT_EQ(got.shape(), want.shape());
  EXPECT_EQ(elements_of(got), elements_of(want));
}

TEST(TensorFile, RoundTripsEveryDtypeAndRank) {
  const Extents shapes[] = {{},
                            {5},
                            {0},
                            {2, 3},
                            {3, 0, 2},
                            {2, 3, 4},
                            {2, 1, 3, 2},
                            {1, 2, 2, 2, 3},
                            {2, 1, 2, 3, 1, 2}};
  const TemporaryDirectory directory;
  for (const DType dtype : all_dtypes) {
    for (const Extents& shape : shapes) {
      const OwnedTensor tensor = patterned(dtype, shape);
      for (const std::string spec : {"t.npy", "t.safetensors:some name", "t.safetensors"}) {
        if (spec == "t.npy" && !npy_has(dtype)) continue;
        SCOPED_TRACE(spec + " " + tensor.view().to_string());
        write_tensor(directory / spec, tensor.view());
        const OwnedTensor back = read_tensor(directory / spec);
        expect_same(back.view(), tensor.view());
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(back.view().data()) % 64, 0u);
        EXPECT_NE(back.view().data(), nullptr);
      }
    }
  }
}

TEST(TensorFile, WritesStridedViewsContiguous) {
  const TemporaryDirectory directory;
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::u8}) {
    const OwnedTensor tensor = patterned(dtype, {3, 4, 5});
    const TensorView views[] = {
        tensor.view().transposed(0, 2),
        tensor.view().transposed(0, 1),
        tensor.view().slice(1, 1, 3),
        tensor.view().slice(2, 1, 4),
        tensor.view().slice(2, 2, 3),
        tensor.view().slice(1, 2, 2).transposed(0, 2),
        TensorView(tensor.view().data(), dtype, {2, 3}, {0, 1}),
    };
    for (const TensorView& view : views) {
      for (const std::string spec : {"t.npy", "t.safetensors"}) {
        SCOPED_TRACE(spec + " " + view.to_string());
        write_tensor(directory / spec, view);
        const OwnedTensor back = read_tensor(directory / spec);
        EXPECT_TRUE(back.view().contiguous());
        expect_same(back.view(), view);
      }
    }
  }
}

TEST(TensorFile, WritesStridedViewsLargerThanABlock) {
  const TemporaryDirectory directory;
  const OwnedTensor tensor = patterned(DType::f32, {1030, 700});
  const TensorView views[] = {tensor.view().transposed(0, 1), tensor.view().slice(1, 3, 699)};
  for (const TensorView& view : views) {
    write_tensor(directory / "t.npy", view);
    EXPECT_TRUE(elements_of(read_tensor(directory / "t.npy").view()) == elements_of(view))
        << view.to_string();
  }
}

TEST(TensorFile, ReadsWhatNumpyWrote) {
  const auto counts = [](const std::string& file, auto first, Extents shape) {
    SCOPED_TRACE(file);
    using T = decltype(first);
    const OwnedTensor tensor = read_tensor(fixture(file));
    EXPECT_EQ(tensor.view().shape(), shape);
    const T* const values = tensor.view().as<T>();
    for (int i = 0; i < tensor.view().element_count(); ++i) EXPECT_EQ(values[i], T(i)) << i;
  };
  counts("f8.npy", 0.0, {2, 3});
  counts("f4.npy", 0.0f, {2, 3});
  counts("i8.npy", std::int64_t{0}, {2, 3});
  counts("i4.npy", std::int32_t{0}, {2, 3});
  counts("i1.npy", std::int8_t{0}, {2, 3});
  counts("u1.npy", std::uint8_t{0}, {2, 3});
  counts("b1.npy", false, {2, 3});
  counts("version2.npy", 0.0f, {2, 3});
  counts("version3.npy", 0.0f, {2, 3});
  counts("one_axis.npy", std::int32_t{0}, {5});
  counts("empty.npy", 0.0f, {3, 0, 2});
  const OwnedTensor half = read_tensor(fixture("f2.npy"));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(to_float(half.view().as<float16>()[i]), float(i));
  const OwnedTensor scalar = read_tensor(fixture("scalar.npy"));
  EXPECT_EQ(scalar.view().rank(), 0);
  EXPECT_EQ(*scalar.view().as<double>(), 7.0);
}

TEST(TensorFile, FortranOrderIsAMatterOfStrides) {
  const OwnedTensor tensor = read_tensor(fixture("fortran.npy"));
  const TensorView view = tensor.view();
  EXPECT_EQ(view.shape(), (Extents{2, 3, 4}));
  EXPECT_EQ(view.strides(), (Extents{1, 2, 6}));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) {
        EXPECT_EQ(view.as<float>()[i + 2 * j + 6 * k], float(12 * i + 4 * j + k));
      }
  const TemporaryDirectory directory;
  write_tensor(directory / "c.npy", view);
  const OwnedTensor back = read_tensor(directory / "c.npy");
  EXPECT_TRUE(back.view().contiguous());
  expect_same(back.view(), view);
}

TEST(TensorFile, RefusesWhatNumpyWroteAndTilefoldDoesNotRead) {
  const auto refused = [](const std::string& file, const std::string& part) {
    expect_refusal(ErrorCode::file_format, part, [&] { read_tensor(fixture(file)); });
  };
  refused("big_endian.npy", "big_endian.npy: its elements are big-endian");
  refused("structured.npy", "structured.npy: its elements are structured");
  refused("object.npy", "object.npy: its elements are Python objects");
  refused("complex.npy", "'<c8'");
  refused("text.npy", "'<U2'");
  refused("bfloat16.npy", "store bf16 and fp8 as .safetensors");
  refused("float8.npy", "store bf16 and fp8 as .safetensors");
}

TEST(TensorFile, ReadsWhatTheSafetensorsLibraryWrote) {
  const std::string file = fixture("types.safetensors");
  const auto counts = [&](const std::string& name, auto value_of) {
    SCOPED_TRACE(name);
    const OwnedTensor tensor = read_tensor(file + ":" + name);
    EXPECT_EQ(tensor.view().shape(), (Extents{2, 3}));
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(double(value_of(tensor.view(), i)), name == "bool" ? double(i > 0) : double(i))
          << i;
    }
  };
  const auto plain = [&counts](const std::string& name, auto zero) {
    counts(name, [](const TensorView& v, int i) { return v.as<decltype(zero)>()[i]; });
  };
  const auto narrow = [&counts](const std::string& name, auto zero) {
    counts(name, [](const TensorView& v, int i) { return to_float(v.as<decltype(zero)>()[i]); });
  };
  plain("f64", 0.0);
  plain("f32", 0.0f);
  plain("i64", std::int64_t{});
  plain("i32", std::int32_t{});
  plain("i8", std::int8_t{});
  plain("u8", std::uint8_t{});
  plain("bool", false);
  narrow("f16", float16{});
  narrow("bf16", bfloat16{});
  narrow("e4m3", float8_e4m3{});
  narrow("e5m2", float8_e5m2{});
  EXPECT_EQ(read_tensor(file + ":empty").view().shape(), (Extents{0, 4}));
  EXPECT_EQ(*read_tensor(file + ":scalar").view().as<float>(), 7.0f);
  EXPECT_THAT(metadata(file), ElementsAre(Pair("made by", "the safetensors library")));
  EXPECT_EQ(list_tensors(file).size(), 14u);
  expect_refusal(ErrorCode::file_format, "tensor 'u16' has elements of type 'U16'",
                 [&] { read_tensor(file + ":u16"); });
  EXPECT_EQ(read_tensor(fixture("one.safetensors")).view().shape(), (Extents{2, 3}));
}

TEST(TensorFile, AFileOfSeveralTensorsKeepsThemAll) {
  const TemporaryDirectory directory;
  const OwnedTensor q = patterned(DType::i8, {3}), k = patterned(DType::f64, {2, 2});
  const std::string path = directory / "layer.safetensors";
  write_tensors(path, {{"q", q.view()}, {"k:0", k.view()}}, {{"made", "here"}});
  expect_same(read_tensor(path + ":q").view(), q.view());
  expect_same(read_tensor(path + ":k:0").view(), k.view());
  EXPECT_THAT(metadata(path), ElementsAre(Pair("made", "here")));
  const std::vector<StoredTensor> list = list_tensors(path);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "k:0");
  EXPECT_EQ(list[0].dtype, DType::f64);
  EXPECT_THAT(list[0].shape, ElementsAre(2, 2));
  expect_refusal(ErrorCode::file_format, "holds 2 tensors: name one after a colon, of 'k:0', 'q'",
                 [&] { read_tensor(path); });
  expect_refusal(ErrorCode::file_format, "no tensor 'v': it holds 'k:0', 'q'",
                 [&] { read_tensor(path + ":v"); });
  write_tensors(path, {});
  EXPECT_TRUE(list_tensors(path).empty());
  expect_refusal(ErrorCode::file_format, "holds no tensor", [&] { read_tensor(path); });
}

TEST(TensorFile, ASafetensorsFileNamesItsOnlyTensorAfterItself) {
  const TemporaryDirectory directory;
  write_tensor(directory / "out.safetensors", patterned(DType::f32, {2}).view());
  EXPECT_EQ(list_tensors(directory / "out.safetensors").at(0).name, "out");
  write_tensor(directory / "a.npy", patterned(DType::f32, {2}).view());
  EXPECT_EQ(list_tensors(directory / "a.npy").at(0).type, "<f4");
  EXPECT_TRUE(metadata(directory / "a.npy").empty());
}

TEST(TensorFile, TheNameSaysWhichFormat) {
  const auto refused = [](const std::string& spec, const std::string& part) {
    expect_refusal(ErrorCode::file_format, part, [&] { read_tensor(spec); });
    expect_refusal(ErrorCode::file_format, part,
                   [&] { write_tensor(spec, allocate(DType::f32, {1}).view()); });
  };
  refused("q.bin", "q.bin: unknown extension: the name must end with .npy or .safetensors");
  refused("", "unknown extension");
  refused("a.npy/q", "unknown extension");
  refused("q.npy:x", "leave out the colon");
  refused("q.safetensors:", "a tensor's name must follow the colon");
  const OwnedTensor tensor = allocate(DType::f32, {1});
  expect_refusal(ErrorCode::file_format, "without a tensor's", [&] {
    write_tensors("a.safetensors:q", {{"q", tensor.view()}});
  });
  expect_refusal(ErrorCode::file_format, "write a .safetensors file", [&] {
    write_tensors("a.npy", {{"q", tensor.view()}});
  });
}

TEST(TensorFile, SystemErrorsCarryTheSystemsWords) {
  const TemporaryDirectory directory;
  const OwnedTensor tensor = allocate(DType::f32, {2});
  expect_refusal(ErrorCode::file_io, "none.npy: cannot be opened for reading: No such file",
                 [&] { read_tensor(directory / "none.npy"); });
  std::filesystem::create_directory(directory / "folder.npy");
  expect_refusal(ErrorCode::file_io, "folder.npy: cannot be read: Is a directory",
                 [&] { read_tensor(directory / "folder.npy"); });
  expect_refusal(ErrorCode::file_io, "No such file or directory",
                 [&] { write_tensor(directory / "none/t.npy", tensor.view()); });
  expect_refusal(ErrorCode::file_io, "folder.npy: cannot be given its name: Is a directory",
                 [&] { write_tensor(directory / "folder.npy", tensor.view()); });
  expect_refusal(ErrorCode::file_io, "holds a NUL byte",
                 [&] { read_tensor(directory / std::string("a\0.npy", 6)); });
  EXPECT_EQ(directory.file_count(), 1) << "a failed write left a file behind";
}

// Files of this process cannot grow past `bytes` while this lives: a full disk in small.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    before_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, before_handler_);
  }

 private:
  rlimit before_{};
  void (*before_handler_)(int) = nullptr;
};

TEST(TensorFile, AFailedWriteLeavesTheOldFileAlone) {
  const TemporaryDirectory directory;
  for (const std::string name : {"t.npy", "t.safetensors"}) {
    const std::string path = directory / name;
    const OwnedTensor old = patterned(DType::f32, {3});
    write_tensor(path, old.view());
    const std::ptrdiff_t files = directory.file_count();
    {
      const FileSizeLimit limit(4096);
      expect_refusal(ErrorCode::file_io, name + ": cannot be written: File too large",
                     [&] { write_tensor(path, patterned(DType::f32, {5000}).view()); });
    }
    EXPECT_EQ(directory.file_count(), files) << "a failed write left a file behind";
    expect_same(read_tensor(path).view(), old.view());
  }
}

TEST(TensorFile, AHeaderCannotMakeMoreThanTheFileBeAllocated) {
  const TemporaryDirectory directory;
  const std::string npy = directory.write(
      "t.npy",
      npy_file("{'descr': '|u1', 'fortran_order': False, 'shape': (1152921504606846975,)}", "1"));
  expect_refusal(ErrorCode::file_format, "promises 1152921504606846975 bytes",
                 [&] { read_tensor(npy); });
  const std::string header = R"({"q":{"dtype":"U8","shape":[1152921504606846975],)"
                             R"("data_offsets":[0,1152921504606846975]}})";
  const std::string named = directory.write("t.safetensors", safetensors_file(header, "1"));
  expect_refusal(ErrorCode::file_format,
                 "truncated: tensor 'q' ends at data byte 1152921504606846975",
                 [&] { read_tensor(named); });
}

TEST(TensorFile, TruncatedFilesOnDiskAreRefused) {
  const TemporaryDirectory directory;
  for (const std::string name : {"f4.npy", "one.safetensors"}) {
    const std::string whole = content_of(fixture(name));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      SCOPED_TRACE(name + " cut at " + std::to_string(size));
      const std::string path = directory.write(name, whole.substr(0, size));
      expect_refusal(ErrorCode::file_format, name + ": truncated", [&] { read_tensor(path); });
    }
  }
}

TEST(TensorFile, ABooleanIsZeroOrOne) {
  const TemporaryDirectory directory;
  std::string whole = content_of(fixture("b1.npy"));
  whole[whole.size() - 2] = 2;
  const std::string path = directory.write("t.npy", whole);
  expect_refusal(ErrorCode::file_format,
                 "the boolean at byte " + std::to_string(whole.size() - 2) + " is 2",
                 [&] { read_tensor(path); });
}

TEST(TensorFile, OnlyHostTensorsWithDataAreWritten) {
  const TemporaryDirectory directory;
  float value = 0;
  const TensorView on_device(&value, DType::f32, {1}, Device::cuda(1));
  for (const std::string spec : {"t.npy", "t.safetensors"}) {
    expect_refusal(ErrorCode::device_mismatch, spec + ": the tensor to be written is on cuda:1",
                   [&] { write_tensor(directory / spec, on_device); });
    expect_refusal(ErrorCode::missing_argument, "has no data",
                   [&] { write_tensor(directory / spec, TensorView()); });
    expect_refusal(ErrorCode::missing_argument, "has no data",
                   [&] { write_tensor(directory / spec, TensorView(nullptr, DType::f32, {1})); });
  }
  const std::int64_t huge = std::int64_t{1} << 40;
  expect_refusal(ErrorCode::shape_mismatch, "is too large for a file", [&] {
    write_tensor(directory / "t.npy", TensorView(&value, {0, huge, huge}));
  });
  expect_refusal(ErrorCode::file_format, "no code for bf16",
                 [&] { write_tensor(directory / "t.npy", allocate(DType::bf16, {1}).view()); });
  EXPECT_EQ(directory.file_count(), 0);
}

TEST(TensorFile, AllocatedTensorsAreAlignedZeros) {
  OwnedTensor tensor = allocate(DType::f32, {3, 5});
  EXPECT_TRUE(tensor.view().contiguous());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.view().data()) % 64, 0u);
  EXPECT_EQ(elements_of(tensor.view()), std::string(60, '\0'));
  tensor.output().as<float>()[14] = 1;
  const OwnedTensor moved = std::move(tensor);
  EXPECT_EQ(moved.view().as<float>()[14], 1.0f);
  EXPECT_TRUE(allocate(DType::f32, {0, 3}).view().present());
  EXPECT_NE(allocate(DType::f32, {0, 3}).view().data(), nullptr);
  expect_refusal(ErrorCode::shape_mismatch, "[-1]", [] { allocate(DType::f32, {-1}); });
  expect_refusal(ErrorCode::shape_mismatch, "[4294967296, 4294967296]", [] {
    allocate(DType::f32, {std::int64_t{1} << 32, std::int64_t{1} << 32});
  });
}

}  // namespace
}  // namespace tilefold::files
