// Law: `tilefold attend` computes what the library computes from the same tensors and options, bit
// for bit, and no option is dropped.
#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <list>
#include <nlohmann/json.hpp>

#include "core/files/tensor_file.hpp"
#include "core/geometry.hpp"
#include "cuda/backend.hpp"
#include "reference/attention.hpp"
#include "support/random.hpp"
#include "support/tensor_memory.hpp"
#include "tilefold/attention.hpp"
#include "tool_run.hpp"

namespace tilefold::testing {

namespace {

using Words = std::vector<std::string>;

class AttendTest : public ToolTest {
 protected:
  // Dense: 2 sequences, 5 queries of 4 heads over 7 keys of 2 heads, dimension 16.
  void SetUp() override {
    ToolTest::SetUp();
    problem_.tensors.query = drawn("q.npy", DType::f32, {2, 5, 4, 16});
    problem_.tensors.key = drawn("k.npy", DType::f32, {2, 7, 2, 16});
    problem_.tensors.value = drawn("v.npy", DType::f32, {2, 7, 2, 16});
  }

  OutputView allocate(DType dtype, const Extents& shape) {
    tensors_.push_back(files::allocate(dtype, shape));
    return tensors_.back().output();
  }

  /// Numbers in (-1, 1), also as a file.
  TensorView drawn(const std::string& name, DType dtype, const Extents& shape) {
    const OutputView tensor = allocate(dtype, shape);
    for (std::int64_t i = 0; i < tensor.element_count(); ++i)
      store(tensor, i, random_.uniform(-1, 1));
    files::write_tensor(path(name), tensor);
    return tensor;
  }

  TensorView integers(const std::vector<int>& values, const std::string& name = "",
                      const Extents& shape = {}) {
    const OutputView tensor =
        allocate(DType::i32, shape.size() > 0 ? shape : Extents{std::int64_t(values.size())});
    for (std::size_t i = 0; i < values.size(); ++i) store(tensor, std::int64_t(i), values[i]);
    if (!name.empty()) files::write_tensor(path(name), tensor);
    return tensor;
  }

  /// The library's own result for problem_, whose outputs are made here.
  void compute(DType dtype) {
    Tensors& t = problem_.tensors;
    Extents shape = t.query.shape();
    const bool view = problem_.options.value_source == ValueSource::view_of_key;
    shape[shape.size() - 1] = view ? problem_.options.value_dim : t.value.dim(t.value.rank() - 1);
    t.out = allocate(dtype, shape);
    const bool ragged = t.query.rank() == 3;
    t.lse = ragged ? allocate(DType::f32, {shape[1], shape[0]})
                   : allocate(DType::f32, {shape[0], shape[2], shape[1]});
    attend(problem_);
  }

  Words command(const Words& options) const {
    Words words{"attend"};
    for (const Words& part :
         {inputs_, Words{"--out", "o.safetensors:out", "--lse", "o.safetensors:lse"}, options})
      words.insert(words.end(), part.begin(), part.end());
    return words;
  }

  /// Runs the tool and compares both outputs with those of problem_.
  void expect_same(const Words& options, DType dtype = DType::f32) {
    SCOPED_TRACE(::testing::PrintToString(options));
    compute(dtype);
    const ToolRun run = tool(command(options));
    ASSERT_EQ(run.code, 0) << run.out << run.err;
    const files::OwnedTensor out = files::read_tensor(path("o.safetensors:out"));
    const files::OwnedTensor lse = files::read_tensor(path("o.safetensors:lse"));
    EXPECT_EQ(out.view().dtype(), dtype);
    EXPECT_EQ(out.view().shape(), problem_.tensors.out.shape());
    EXPECT_EQ(packed_bytes(out.view()), packed_bytes(problem_.tensors.out)) << "out";
    EXPECT_EQ(packed_bytes(lse.view()), packed_bytes(problem_.tensors.lse)) << "lse";
  }

  /// The same for one option of the dense problem, which must change the plain result.
  void expect_option(const Words& options, const std::function<void(Problem&)>& apply) {
    SCOPED_TRACE(::testing::PrintToString(options));
    const Problem plain = problem_;
    compute(DType::f32);
    const auto without = packed_bytes(problem_.tensors.out);
    apply(problem_);
    expect_same(options);
    EXPECT_NE(packed_bytes(problem_.tensors.out), without) << "the option changes nothing";
    problem_ = plain;
  }

  void make_ragged() {
    Tensors& t = problem_.tensors;
    t.query = drawn("q.npy", DType::f32, {9, 4, 16});
    t.key = drawn("k.npy", DType::f32, {11, 2, 16});
    t.value = drawn("v.npy", DType::f32, {11, 2, 16});
  }

  Words inputs_{"-q", "q.npy", "-k", "k.npy", "-v", "v.npy"};
  Problem problem_;

 private:
  Random random_{7};
  std::list<files::OwnedTensor> tensors_;
};

TEST_F(AttendTest, PlainResultLiesWithinRoundingOfFloat64) {
  expect_same({});
  const core::Geometry geometry = core::resolve(problem_);
  const reference::Result exact =
      reference::forward({geometry, problem_.tensors, problem_.options});
  const files::OwnedTensor out = files::read_tensor(path("o.safetensors:out"));
  for (int b = 0; b < 2; ++b)
    for (int row = 0; row < 5; ++row)
      for (int head = 0; head < 4; ++head)
        for (int c = 0; c < 16; ++c)
          ASSERT_NEAR(load(out.view(), ((b * 5 + row) * 4 + head) * 16 + c),
                      exact.out.at(b, row, head)[c], 1e-5)
              << "sequence " << b << ", row " << row << ", head " << head << ", column " << c;
}

TEST_F(AttendTest, Masks) {
  expect_option({"--causal"}, [](Problem& p) { p.options.mask = causal(); });
  expect_option({"--window", "1,0"}, [](Problem& p) { p.options.mask = window(1, 0); });
  expect_option({"--window", "2"}, [](Problem& p) { p.options.mask = window(2); });
  expect_option({"--prefix", "3"}, [](Problem& p) { p.options.mask = prefix(3); });
  const TensorView lengths = integers({4, 6}, "lengths.npy");
  const auto prefix_lm = [&](Problem& p) { p.options.mask = causal() || prefix(lengths); };
  expect_option({"--causal", "--prefix", "4,6"}, prefix_lm);
  expect_option({"--causal", "--prefix", "lengths.npy"}, prefix_lm);
  expect_option({"--causal", "--prefix", "4,6", "--window", "3"},
                [&](Problem& p) { p.options.mask = (causal() || prefix(lengths)) && window(3); });
  const TensorView ids = integers({0, 0, 0, 1, 1, 1, 1});
  expect_option({"--documents", "0,0,0,1,1,1,1"},
                [&](Problem& p) { p.options.mask = documents(ids); });
}

TEST_F(AttendTest, Positions) {
  const auto at = [](Problem& p) {
    p.options.mask = causal();
    p.options.positions = Positions{{1, 2}, {0, 3}, 4};
  };
  expect_option({"--causal", "--positions", "1,2,0,3,4"}, at);
  const TensorView starts = integers({2, 5});
  expect_option({"--causal", "--positions", "1,2,0,3,4", "--query-starts", "2,5"},
                [&](Problem& p) { at(p), p.tensors.query_starts = starts; });
  expect_option({"--causal", "--positions", "1,2,0,3,4", "--key-starts", "2,5"},
                [&](Problem& p) { at(p), p.tensors.key_starts = starts; });
}

TEST_F(AttendTest, Scores) {
  expect_option({"--scale", "0.7"}, [](Problem& p) { p.options.scale = 0.7; });
  expect_option({"--softcap", "0.5"}, [](Problem& p) { p.options.softcap = 0.5; });
  const TensorView slopes = drawn("slopes.npy", DType::f32, {2, 4});
  expect_option({"--alibi", "slopes.npy"}, [&](Problem& p) { p.tensors.alibi_slopes = slopes; });
  const OutputView standard = allocate(DType::f32, {4});
  alibi_slopes(4, standard.as<float>());
  expect_option({"--alibi", "auto"}, [&](Problem& p) { p.tensors.alibi_slopes = standard; });
  const TensorView bias = drawn("bias.npy", DType::f32, {1, 4, 5, 7});
  expect_option({"--bias", "bias.npy"}, [&](Problem& p) { p.tensors.bias = bias; });
  const TensorView sinks = drawn("sinks.npy", DType::f32, {4});
  expect_option({"--sinks", "sinks.npy"}, [&](Problem& p) { p.tensors.sinks = sinks; });
}

TEST_F(AttendTest, SoftcapOfZeroIsNone) { expect_same({"--softcap", "0"}); }

TEST_F(AttendTest, Lengths) {
  const TensorView queries = integers({3, 5}), keys = integers({4, 7});
  expect_option({"--query-lengths", "3,5"}, [&](Problem& p) { p.tensors.query_lengths = queries; });
  expect_option({"--key-lengths", "4,7"}, [&](Problem& p) { p.tensors.key_lengths = keys; });
}

TEST_F(AttendTest, Ragged) {
  make_ragged();
  problem_.tensors.cu_seqlens_q = integers({0, 4, 9}, "cu_q.npy");
  problem_.tensors.cu_seqlens_k = integers({0, 6, 11});
  expect_same({"--cu-seqlens-q", "0,4,9", "--cu-seqlens-k", "0,6,11"});
  expect_same({"--cu-seqlens-q", "cu_q.npy", "--cu-seqlens-k", "0,6,11"});
}

TEST_F(AttendTest, PagedInBothTableFormsAndLayouts) {
  Tensors& t = problem_.tensors;
  t.key = drawn("k.npy", DType::f32, {6, 4, 2, 16});
  t.value = drawn("v.npy", DType::f32, {6, 4, 2, 16});
  t.pages.table = integers({5, 2, 1, 3}, "table.npy", {2, 2});
  t.key_lengths = integers({6, 8});
  expect_same({"--page-table", "table.npy", "--key-lengths", "6,8"});
  const auto nhd = packed_bytes(t.out);
  t.key = drawn("k.npy", DType::f32, {6, 2, 4, 16});
  t.value = drawn("v.npy", DType::f32, {6, 2, 4, 16});
  problem_.options.page_layout = PageLayout::hnd;
  expect_same({"--page-table", "table.npy", "--key-lengths", "6,8", "--page-layout", "hnd"});
  EXPECT_NE(packed_bytes(t.out), nhd);
  t.pages = {};
  t.key_lengths = {};
  t.pages.indptr = integers({0, 2, 4});
  t.pages.indices = integers({5, 2, 1, 3});
  t.pages.last_page_size = integers({2, 4});
  expect_same({"--page-indptr", "0,2,4", "--page-indices", "5,2,1,3", "--last-page-size", "2,4",
               "--page-layout", "hnd"});
}

TEST_F(AttendTest, DescaleOfFp8) {
  Tensors& t = problem_.tensors;
  t.query = drawn("q.safetensors", DType::e4m3, {2, 5, 4, 16});
  t.key = drawn("k.safetensors", DType::e4m3, {2, 7, 2, 16});
  t.value = drawn("v.safetensors", DType::e5m2, {2, 7, 2, 16});
  inputs_ = {"-q", "q.safetensors", "-k", "k.safetensors", "-v", "v.safetensors"};
  t.query_descale = {drawn("dq.npy", DType::f32, {4}), Granularity::head};
  t.key_descale = {drawn("dk.npy", DType::f32, {2, 7, 2}), Granularity::token};
  t.value_descale = {drawn("dv.npy", DType::f32, {1}), Granularity::tensor};
  const Words options{"--query-descale", "dq.npy", "--query-descale-per", "head",
                      "--key-descale",   "dk.npy", "--key-descale-per",   "token",
                      "--value-descale", "dv.npy", "--value-descale-per", "tensor"};
  expect_same(options, DType::bf16);
  const auto descaled = packed_bytes(t.out);
  t.query_descale = t.key_descale = t.value_descale = {};
  compute(DType::bf16);
  EXPECT_NE(packed_bytes(t.out), descaled);
}

TEST_F(AttendTest, ValueAsFirstColumnsOfTheKey) {
  inputs_ = {"--query", "q.npy", "--key", "k.npy"};
  problem_.tensors.value = {};
  problem_.options.value_source = ValueSource::view_of_key;
  problem_.options.value_dim = 8;
  expect_same({"--value-dim", "8"});
}

TEST_F(AttendTest, OutDtype) { expect_same({"--out-dtype", "f16"}, DType::f16); }

TEST_F(AttendTest, Partial) {
  problem_.options.output = OutputKind::partial;
  expect_same({"--partial"});
}

TEST_F(AttendTest, BatchInvariantAndBackend) {
  problem_.options.reproducibility = Reproducibility::batch_invariant;
  expect_same({"--batch-invariant", "--backend", "cpu"});
}

TEST_F(AttendTest, NumberOfThreadsChangesNoBit) {
  for (const char* threads : {"0", "1", "2", "1000"}) expect_same({"--threads", threads});
}

TEST_F(AttendTest, EmptyTensorsGiveEmptyRows) {
  problem_.tensors.key = drawn("k.npy", DType::f32, {2, 0, 2, 16});
  problem_.tensors.value = drawn("v.npy", DType::f32, {2, 0, 2, 16});
  expect_same({"--check"});
  for (const unsigned char byte : packed_bytes(problem_.tensors.out)) ASSERT_EQ(byte, 0);
}

TEST_F(AttendTest, CheckCountsOutputsThatAreNotFinite) {
  const OutputView value = allocate(DType::f32, {2, 7, 2, 16});
  for (std::int64_t i = 0; i < value.element_count(); ++i) store(value, i, 0.5);
  store(value, 3, std::numeric_limits<double>::quiet_NaN());  // key 0 of sequence 0, head 0
  files::write_tensor(path("v.npy"), value);
  const ToolRun run = tool(command({"--check"}));
  ASSERT_EQ(run.code, 0) << run.err;
  // One column of 5 queries and the 2 query heads that read the head.
  EXPECT_THAT(run.out, ::testing::HasSubstr("not finite  10 outputs, in float64 too"));
}

// By the accuracy rule: eager attention's scores are float32 too.
TEST_F(AttendTest, ScoresThatLeaveFloat32LeaveItInEagerAttentionToo) {
  const ToolRun run = tool(command({"--check", "--score", "s * 1e38 * 10.0"}));
  EXPECT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, ::testing::HasSubstr("eager attention in f32: inf"));
}

TEST_F(AttendTest, JsonHoldsPlanCheckAndComparison) {
  const ToolRun run = tool(
      command({"--json", "--explain", "--check", "--check-rows", "3", "--compare-materialised"}));
  ASSERT_EQ(run.code, 0) << run.err;
  const auto report = nlohmann::json::parse(run.out);
  EXPECT_EQ(report.at("check").at("rows"), 3);
  EXPECT_EQ(report.at("check").at("of_rows"), 10);
  EXPECT_EQ(report.at("check").at("within"), true);
  EXPECT_TRUE(report.at("plan").contains("kernel"));
  EXPECT_GT(report.at("tilefold").at("seconds"), 0);
  EXPECT_GT(report.at("materialised").at("seconds"), 0);
}

TEST_F(AttendTest, TextHoldsPlanCheckAndComparison) {
  const ToolRun run = tool(command({"--explain", "--check", "--compare-materialised"}));
  ASSERT_EQ(run.code, 0) << run.err;
  for (const char* part :
       {"kernel ", "10 of 10 rows against float64", "within the rule", "materialised "})
    EXPECT_THAT(run.out, ::testing::HasSubstr(part));
}

TEST_F(AttendTest, WithoutOutNothingIsWritten) {
  const std::vector<std::string> before = names();
  EXPECT_EQ(tool({"attend", "-q", "q.npy", "-k", "k.npy", "-v", "v.npy"}).code, 0);
  EXPECT_EQ(names(), before);
}

TEST_F(AttendTest, OneFileUnderTwoSpellingsHoldsBothOutputs) {
  const ToolRun run = tool({"attend", "-q", "q.npy", "-k", "k.npy", "-v", "v.npy", "--out",
                            "both.safetensors:o", "--lse", "./both.safetensors:l"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(files::list_tensors(path("both.safetensors")).size(), 2u);
}

// Each leaves the directory as it was: a refused problem writes no output.
TEST_F(AttendTest, RefusedProblemsWriteNothing) {
  drawn("heads.npy", DType::f32, {2, 5, 3, 16});
  drawn("flat.npy", DType::f32, {5, 16});
  drawn("scalar.npy", DType::f32, {});
  drawn("nothing.npy", DType::f32, {2, 5, 4, 0});
  integers({1, 2, 3}, "three.npy");
  const std::vector<std::string> before = names();
  const auto refused = [&](const Words& options, const char* message) {
    expect_error(command(options), 3, message);
  };
  for (const char* query : {"flat.npy", "scalar.npy", "three.npy"}) {
    inputs_[1] = query;
    refused({}, "it must be [B, Sq, Hq, D]");
  }
  inputs_[1] = "heads.npy";
  refused({}, "query_heads is 3, kv_heads is 2");
  inputs_[1] = "nothing.npy";
  refused({}, "axis 3 must be 0, the head dimension of query");
  inputs_[1] = "q.npy";
  refused({"--scale", "nan"}, "scale is not finite");
  refused({"--softcap", "-3"}, "softcap is -3");
  refused({"--out-dtype", "i32"}, "its dtype must be");
  refused({"--key-lengths", "3,-1"}, "key_lengths[1] is -1");
  refused({"--key-lengths", "3,8"}, "key_lengths[1] is 8");
  refused({"--prefix", "1,2,3"}, "--prefix holds 3 lengths: it must hold 2");
  refused({"--documents", "0,0"}, "documents(ids) has 2 entries");
  refused({"--positions", "0,0,0,1,2"}, "position strides are 0");
  refused({"--query-starts", "1,2"}, "they need options.positions");
  refused({"--cu-seqlens-q", "0,5"}, "cu_seqlens_q is present");
  refused({"--key-descale", "q.npy"}, "only e4m3 and e5m2 are descaled");
  refused({"--partial", "--sinks", "q.npy"}, "sinks");
  EXPECT_EQ(names(), before);
}

TEST_F(AttendTest, WrongCommandLinesWriteNothing) {
  const std::vector<std::string> before = names();
  const auto wrong = [&](const Words& options, const char* message) {
    expect_error(command(options), 2, message);
  };
  wrong({"--bogus"}, "--bogus");
  wrong({"--cases", "3"}, "--cases");
  wrong({"--window", "abc"}, "--window is 'abc'");
  wrong({"--window", "1,2,3"}, "--window is '1,2,3'");
  wrong({"--window", ""}, "--window: the text is empty");
  wrong({"--window", "99999999999"}, "it must fit 32 bits");
  wrong({"--prefix", "-5"}, "lengths must be 0 or more");
  wrong({"--positions", "1,2,3"}, "Q_START,Q_STRIDE,K_START,K_STRIDE,OFFSET");
  wrong({"--scale", "much"}, "--scale");
  wrong({"--out-dtype", "f17"}, "--out-dtype is 'f17'");
  wrong({"--threads", "-1"}, "--threads: '-1' is not a whole number from 0 to 1024");
  wrong({"--threads", "99999999999999999999"}, "--threads");
  wrong({"--value-dim", "8"}, "--value excludes --value-dim");
  wrong({"--check-rows", "5"}, "--check-rows requires --check");
  wrong({"--key-descale-per", "head"}, "--key-descale-per requires --key-descale");
  wrong({"--page-layout", "hnd"}, "it needs --page-table");
  wrong({"--page-layout", "dhn"}, "--page-layout");
  wrong({"--backend", "tpu"}, "--backend");
  expect_error({"attend"}, 2, "--query is required");
  expect_error(
      {"attend", "-q", "q.npy", "-k", "k.npy", "-v", "v.npy", "-o", "x.npy", "--lse", "./x.npy"}, 2,
      "--out and --lse name the same file");
  EXPECT_EQ(names(), before);
}

TEST_F(AttendTest, FileErrors) {
  write_text("empty.npy", "");
  write_text("bad.npy", "hello world");
  write_text("bad.safetensors", std::string(20, '\xff'));
  std::filesystem::create_directory(path("folder.npy"));
  const std::vector<std::string> before = names();
  const auto failed = [&](const char* query, const char* message) {
    inputs_[1] = query;
    expect_error(command({}), 4, message);
  };
  failed("missing.npy", "missing.npy: cannot be opened for reading: No such file");
  failed("empty.npy", "empty.npy: truncated");
  failed("bad.npy", "bad.npy: not a .npy file");
  failed("bad.safetensors:q", "bad.safetensors: the header length at byte 0");
  failed("folder.npy", "folder.npy: cannot be read: Is a directory");
  failed("q.txt", "q.txt: unknown extension");
  const auto unwritable = [&](const char* out, const char* message) {
    expect_error({"attend", "-q", "q.npy", "-k", "k.npy", "-v", "v.npy", "-o", out}, 4, message);
  };
  unwritable("nowhere/o.npy", "there is no directory 'nowhere'");
  unwritable("folder.npy", "folder.npy: it is a directory");
  unwritable("o.txt", "its extension must be .npy or .safetensors");
  unwritable("o.safetensors:", "a tensor's name must follow the colon");
  inputs_[1] = "q.npy";
  expect_error(
      {"attend", "-q", "q.npy", "-k", "k.npy", "-v", "v.npy", "-o", "o.npy", "--out-dtype", "bf16"},
      4, ".npy has no code for bf16");
  EXPECT_EQ(names(), before);
}

TEST_F(AttendTest, WithoutACudaDeviceItIsRefusedAndNothingIsWritten) {
  const std::string absence = cuda::presence().absence;
  if (absence.empty()) GTEST_SKIP() << "this machine has a CUDA device";
  expect_error(command({"--backend", "cuda"}), 5, absence);
  EXPECT_FALSE(exists("o.safetensors"));
  // A wrong problem is wrong wherever it would run.
  expect_error(command({"--backend", "cuda", "--softcap", "-1"}), 3, "softcap");
}

TEST_F(AttendTest, OnACudaDevice) {
  const std::string absence = cuda::presence().absence;
  if (!absence.empty()) GTEST_SKIP() << absence;
  drawn("q.npy", DType::f16, {2, 200, 4, 64});
  drawn("k.npy", DType::f16, {2, 300, 2, 64});
  drawn("v.npy", DType::f16, {2, 300, 2, 64});
  const ToolRun run = tool(command({"--backend", "cuda", "--causal", "--check", "--explain"}));
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, ::testing::HasSubstr("within the rule"));
  EXPECT_EQ(files::read_tensor(path("o.safetensors:out")).view().shape(), (Extents{2, 200, 4, 64}));
  // Lengths stay on the host, the other side tensors travel.
  make_ragged();
  drawn("sinks.npy", DType::f32, {4});
  const ToolRun ragged =
      tool(command({"--backend", "cuda", "--cu-seqlens-q", "0,4,9", "--cu-seqlens-k", "0,5,11",
                    "--sinks", "sinks.npy", "--check"}));
  EXPECT_EQ(ragged.code, 0) << ragged.out << ragged.err;
}

}  // namespace

}  // namespace tilefold::testing
