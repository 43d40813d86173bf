// Law: every command answers in text and in JSON, and every error is one line and a documented exit
// code. `attend` has a file of its own.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/files/tensor_file.hpp"
#include "support/tensor_memory.hpp"
#include "tool_run.hpp"

namespace tilefold::testing {

namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

/// What is left of stderr without the lines of a long run, one every ten seconds: a slow machine
/// has some.
std::string without_progress(const std::string& err) {
  std::istringstream lines(err);
  std::string rest;
  for (std::string line; std::getline(lines, line);)
    if (line.find(" % ") == std::string::npos) rest += line + "\n";
  return rest;
}

class CliTest : public ToolTest {
 protected:
  json json_of(const Words& arguments, int code = 0) const {
    const ToolRun run = tool(arguments);
    EXPECT_EQ(run.code, code) << run.err;
    return json::parse(run.out);
  }
  std::string text_of(const Words& arguments, int code = 0) const {
    const ToolRun run = tool(arguments);
    EXPECT_EQ(run.code, code) << run.err;
    EXPECT_EQ(without_progress(run.err), "");
    return run.out;
  }
};

TEST_F(CliTest, HelpAndVersion) {
  EXPECT_EQ(text_of({"--version"}), "0.1.0\n");
  const std::string help = text_of({"--help"});
  for (const char* command :
       {"attend", "explain", "verify", "cases", "bench", "kernels", "ladder", "info", "cache"}) {
    EXPECT_THAT(help, HasSubstr(command));
    EXPECT_THAT(text_of({command, "--help"}), HasSubstr("Exit codes: 0 ok, 1 a check failed"));
  }
}

TEST_F(CliTest, UnknownWordsAreUsageErrors) {
  expect_error({}, 2, "A subcommand is required");
  expect_error({"nosuch"}, 2, "'nosuch' is no command of tilefold: it has attend, ");
  expect_error({"bench"}, 2, "A subcommand is required");
  expect_error({"bench", "gpu"}, 2, "'gpu' is no command of bench: it has cpu");
  for (const char* command : {"explain", "verify", "kernels", "info", "ladder"})
    expect_error({command, "--bogus"}, 2, "--bogus");
  expect_error({"info", "--threads", "2"}, 2, "--threads");
}

TEST_F(CliTest, Info) {
  EXPECT_THAT(text_of({"info"}), HasSubstr("backends      cpu"));
  const json info = json_of({"info", "--json"});
  EXPECT_EQ(info.at("version"), "0.1.0");
  EXPECT_EQ(info.at("backends").at(0), "cpu");
}

TEST_F(CliTest, CacheShowsAndClearsTheKernelsOfFormulas) {
  ::setenv("TILEFOLD_CACHE_DIR", path("compiled formulas").c_str(), 1);
  const json none = json_of({"cache", "--json"});
  if (json_of({"info", "--json"}).at("backends").size() == 1) {
    EXPECT_THAT(std::string(none.at("absence")), HasSubstr("no CUDA backend"));
    EXPECT_THAT(text_of({"cache"}), HasSubstr("no cache: "));
    GTEST_SKIP() << "this build has no CUDA backend";
  }
  EXPECT_EQ(none.at("directory"), path("compiled formulas"));
  EXPECT_EQ(none.at("entries"), 0);
  EXPECT_FALSE(exists("compiled formulas")) << "asking makes nothing";
  std::filesystem::create_directory(path("compiled formulas"));
  write_text("compiled formulas/0123456789abcdef0123456789abcdef.kernel", "12345");
  write_text("compiled formulas/a user's own", "stays");
  EXPECT_EQ(json_of({"cache", "--json"}).at("bytes"), 5);
  EXPECT_THAT(text_of({"cache"}), HasSubstr("holds      1 kernel, 0.0 MB of at most 256"));
  EXPECT_EQ(json_of({"cache", "--clear", "--json"}).at("entries"), 1);
  EXPECT_EQ(json_of({"cache", "--json"}).at("entries"), 0);
  EXPECT_TRUE(exists("compiled formulas/a user's own"));
  ::setenv("TILEFOLD_CACHE_MB", "many", 1);
  expect_error({"cache"}, 3, "TILEFOLD_CACHE_MB is 'many'");
  ::unsetenv("TILEFOLD_CACHE_MB");
  ::unsetenv("TILEFOLD_CACHE_DIR");
}

TEST_F(CliTest, KernelsListsWhatExplainNames) {
  const json kernels = json_of({"kernels", "--json"});
  ASSERT_FALSE(kernels.empty());
  const std::string text = text_of({"kernels"});
  std::vector<std::string> names;
  for (const json& kernel : kernels) {
    names.push_back(kernel.at("name"));
    EXPECT_THAT(text, HasSubstr(names.back()));
  }
  const std::string chosen = json_of({"explain", "--json"}).at("kernel");
  EXPECT_THAT(names, ::testing::Contains(chosen));
}

TEST_F(CliTest, ExplainTakesShapesAndOptions) {
  EXPECT_THAT(text_of({"explain", "--batch",        "3",   "--query-heads", "12",   "--kv-heads",
                       "4",       "--query-length", "100", "--key-length",  "200",  "--head-dim",
                       "96",      "--value-dim",    "80",  "--dtype",       "f16",  "--kv-dtype",
                       "e4m3",    "--out-dtype",    "f32", "--causal",      "--lse"}),
              HasSubstr("3 sequences, 12 query heads over 4 KV heads, head dimension 96 (values "
                        "80), up to 100 queries and 200 keys, f16 over e4m3 keys"));
  EXPECT_THAT(text_of({"explain", "--value-view", "--value-dim", "32"}), HasSubstr("values 32"));
  EXPECT_THAT(text_of({"explain", "--cu-seqlens-q", "0,3,8", "--cu-seqlens-k", "0,9,11"}),
              HasSubstr("2 sequences"));
  EXPECT_THAT(
      text_of({"explain", "--batch", "2", "--pages", "6", "--page-size", "4", "--page-indptr",
               "0,2,4", "--page-indices", "0,1,2,3", "--last-page-size", "2,4"}),
      HasSubstr("8 keys"));
}

TEST_F(CliTest, ExplainRefusesWhatItCannotPlanOrWouldIgnore) {
  expect_error({"explain", "--query-heads", "12", "--kv-heads", "5"}, 3, "query_heads is 12");
  expect_error({"explain", "--head-dim", "2000"}, 3, "head dimensions run from 1 to 1024");
  expect_error({"explain", "--batch", "99999999999"}, 3, "the batch is 99999999999");
  expect_error({"explain", "--cu-seqlens-q", "0,-3", "--cu-seqlens-k", "0,9"}, 3,
               "cu_seqlens_q[1] is -3");
  expect_error({"explain", "--dtype", "foo"}, 2, "--dtype is 'foo'");
  expect_error({"explain", "--batch", "-1"}, 2, "'-1' is not a whole number");
  expect_error({"explain", "--alibi", "auto", "--query-heads", "99999999999"}, 2, "--alibi auto");
  expect_error({"explain", "--pages", "10"}, 2, "--pages needs --page-table");
  expect_error({"explain", "--cu-seqlens-q", "0,3", "--query-length", "3"}, 2, "--query-length");
  expect_error({"explain", "--cu-seqlens-q", "0,3", "--cu-seqlens-k", "0,3", "--batch", "2"}, 2,
               "--batch");
  expect_error({"explain", "--cu-seqlens-q", "missing.npy"}, 4, "missing.npy");
  write_text("floats.safetensors", "");
  expect_error({"explain", "--cu-seqlens-q", "floats.safetensors"}, 4, "floats.safetensors");
  const files::OwnedTensor floats = files::allocate(DType::f32, {3});
  files::write_tensor(path("floats.npy"), floats.view());
  expect_error({"explain", "--cu-seqlens-q", "floats.npy", "--cu-seqlens-k", "0,9"}, 3,
               "its dtype must be i32 or i64");
}

TEST_F(CliTest, VerifyEndsInASummary) {
  const std::string text = text_of({"verify", "--backend", "cpu", "--cases", "5", "--seed", "3"});
  EXPECT_THAT(text,
              EndsWith("verify: 5 cases from seed 3 on cpu: 5 passed, 0 failed, 0 refused\n"));
  const json report = json_of({"verify", "--cases", "4", "--json"});
  EXPECT_EQ(report.at("passed"), 4);
  EXPECT_EQ(report.at("failed"), 0);
  expect_error({"verify", "--cases", "0"}, 2, "--cases: '0' is not a whole number from 1");
  for (const char* work : {"-1", "nan", "inf", "much"})
    expect_error({"verify", "--work", work}, 2, "is not a positive finite number");
  expect_error({"verify", "--seed", "99999999999999999999999"}, 2, "--seed");
  for (const char* family : {"sm90", "sm80"})
    EXPECT_THAT(text_of({"verify", "--family", family, "--cases", "5", "--work", "1e5"}),
                EndsWith("verify: 5 cases from seed 1 on cpu: 5 passed, 0 failed, 0 refused\n"));
  expect_error({"verify", "--family", "any"}, 2, "--family: any not in {sm90,sm80}");
  expect_error({"verify", "--family", "sm90", "--matrix"}, 2, "--matrix");
}

TEST_F(CliTest, CudaIsUnsupportedWhereThereIsNone) {
  const json info = json_of({"info", "--json"});
  if (info.at("backends").size() > 1) GTEST_SKIP() << "this build has the CUDA backend";
  expect_error({"verify", "--backend", "cuda"}, 5, "this build has no CUDA backend");
  expect_error({"cases", TILEFOLD_HANDED_CASES, "--backend", "cuda"}, 5, "no CUDA backend");
  expect_error({"explain", "--backend", "cuda"}, 5, "options.backend asks for cuda");
  expect_error({"ladder"}, 5, "built without CUDA");
}

TEST_F(CliTest, VerifyPrintsTheMatrixOfOptions) {
  const Words asked{"verify", "--matrix", "--cases", "1", "--work", "2e4"};
  const std::string text = text_of(asked);
  EXPECT_THAT(text, ::testing::StartsWith("option "));
  EXPECT_THAT(text, HasSubstr("score: softcap "));
  Words as_json = asked;
  as_json.push_back("--json");
  const json matrix = json_of(as_json);
  EXPECT_EQ(matrix.at("options").at(0).at("cells").at("cpu").at("answer"), "right");
  expect_error({"verify", "--matrix", "--backend", "cpu"}, 2, "--matrix");
  expect_error({"verify", "--repeat", "0"}, 2, "--repeat: '0' is not a whole number from 1");
  EXPECT_THAT(text_of({"verify", "--cases", "4", "--repeat", "3", "--workers", "2"}),
              HasSubstr("4 passed, 0 failed"));
}

// Refused before a device is asked for.
TEST_F(CliTest, LadderRefusesNonsense) {
  expect_error({"ladder", "--seq", "-4"}, 2, "--seq: Value -4 not in range 1 to 1048576");
  expect_error({"ladder", "--seq", "512,0"}, 2, "--seq: Value 0 not in range 1 to 1048576");
  expect_error({"ladder", "--seq", "abc"}, 2, "--seq: Value abc not in range");
  expect_error({"ladder", "--head-dim", "32"}, 2, "--head-dim: 32 not in {64,128}");
  expect_error({"ladder", "--tokens", "-1"}, 2, "--tokens: Value -1 not in range 1 to 268435456");
  expect_error({"ladder", "--hidden", "0"}, 2, "--hidden: Value 0 not in range 64 to 65536");
  expect_error({"ladder", "--hidden", "100"}, 2, "100 is not a multiple of the head dimension 64");
  expect_error({"ladder", "--runs", "0"}, 2, "--runs: Value 0 not in range 1 to 20");
  expect_error({"ladder", "--runs", "1000"}, 2, "--runs: Value 1000 not in range 1 to 20");
  expect_error({"ladder", "--sweep", "--seq", "512"}, 2, "--seq: does not go with --sweep");
  expect_error({"ladder", "--once", "--csv", "a.csv"}, 2, "--csv: does not go with --once");
  for (const char* limit : {"-1", "0", "nan", "inf", "soon"})
    expect_error({"ladder", "--time-limit", limit}, 2, "is not a number from 1 to 1e+06");
  expect_error({"ladder", "--counters", "a.csv"}, 2, "--counters: needs --profile");
}

TEST_F(CliTest, LadderKnowsItsRungsWithoutADevice) {
  expect_error({"ladder", "--rung", ""}, 2, "--rung: the text is empty");
  if (json_of({"info", "--json"}).at("backends").size() == 1)
    GTEST_SKIP() << "this build has no rungs";
  expect_error({"ladder", "--rung", "nosuch"}, 2, "rung is 'nosuch': it must be one of naive, v1");
  expect_error({"ladder", "--rung", "v1,nosuch", "--once"}, 2, "rung is 'nosuch'");
}

// One reason, wherever it is asked for; and the command that needs the device is named.
TEST_F(CliTest, TheReasonForNoDeviceIsTheRightOne) {
  const json info = json_of({"info", "--json"});
  if (info.at("backends").size() == 1) GTEST_SKIP() << "this build has no CUDA backend";
  const std::string absence = info.at("cuda_absence");
  if (absence.empty()) GTEST_SKIP() << "this machine has a device";
  if (info.at("cuda_searched").at("/dev/nvidiactl") == "no driver") {
    EXPECT_EQ(absence, "no CUDA device: this machine has no CUDA driver");
  }
  expect_error({"bench", "forward"}, 5, "bench forward needs a CUDA device: " + absence);
  expect_error({"ladder"}, 5, "the ladder needs a CUDA device: " + absence);
  expect_error({"verify", "--backend", "cuda"}, 5, absence);
}

TEST_F(CliTest, OptionsWithoutEffectOrGivenTwiceAreRefused) {
  expect_error({"explain", "--backend", "cuda", "--threads", "3"}, 2, "--threads is the CPU's");
  expect_error({"explain", "--backend", "cpu", "--device-lengths"}, 2,
               "--device-lengths needs --backend cuda");
  expect_error({"explain", "--backend", "cuda", "--device-lengths", "--backend", "cpu"}, 2,
               "--backend is given 2 times: it takes one value");
}

TEST_F(CliTest, ExplainPlansForCudaWithoutADevice) {
  const json info = json_of({"info", "--json"});
  if (info.at("backends").size() == 1) GTEST_SKIP() << "this build has no CUDA backend";
  const std::string text = text_of({"explain", "--backend", "cuda", "--head-dim", "128"});
  for (const char* part : {"kernel     sm90 bf16 d128", "card       ", "multiprocessors",
                           "tensor pipe", "shared memory", "device memory", " binds\n",
                           "not        sm90 (12 kernels): it multiplies in f16"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("thread")));
  const Words paged{
      "explain", "--backend",      "cuda",    "--batch",          "2",   "--query-length",
      "1",       "--pages",        "6",       "--page-size",      "4",   "--page-indptr",
      "0,2,4",   "--page-indices", "0,1,2,3", "--last-page-size", "2,4", "--device-lengths"};
  EXPECT_THAT(text_of(paged), HasSubstr("tiles met  at most 16 of 16"));
  expect_error({"explain", "--device-lengths"}, 2, "--device-lengths needs --backend cuda");
  expect_error({"explain", "--backend", "cuda", "--device-lengths"}, 2, "needs lengths");
}

// One query over one key: out is the value, whatever the scores.
std::string case_line(const char* op, double value) {
  const json row = {{"shape", {1, 1, 8}}, {"data", json::array({1, 2, 3, 4, 5, 6, 7, 8})}};
  json want = row;
  want["data"][0] = value;
  const json line = {{"id", "one"},
                     {"kind", "test"},
                     {"op", op},
                     {"params", json::object()},
                     {"inputs", {{"q", row}, {"k", row}, {"v", row}}},
                     {"expect", {{"out", want}}},
                     {"tol", {{"fp32", 1e-5}}}};
  return line.dump() + "\n";
}

TEST_F(CliTest, CasesCountsPassedFailedAndUnsupported) {
  write_text("pass.jsonl", case_line("attention", 1));
  write_text("fail.jsonl", case_line("attention", 2));
  write_text("unknown.jsonl", case_line("attention", 1) + case_line("no_such_operation", 1));
  EXPECT_THAT(text_of({"cases", "pass.jsonl"}), EndsWith("1 passed, 0 failed, 0 unsupported\n"));
  EXPECT_THAT(text_of({"cases", "fail.jsonl"}, 1), EndsWith("0 passed, 1 failed, 0 unsupported\n"));
  const char* mixed = "1 passed, 0 failed, 1 unsupported\n";
  EXPECT_THAT(text_of({"cases", "unknown.jsonl"}), EndsWith(mixed));
  EXPECT_THAT(text_of({"cases", "unknown.jsonl", "--strict"}, 1), EndsWith(mixed));
  const json report = json_of({"cases", "unknown.jsonl", "--strict", "--json"}, 1);
  EXPECT_EQ(report.at("unsupported"), 1);
  EXPECT_EQ(report.at("cases").at(0).at("status"), "passed");
}

TEST_F(CliTest, HandedCasesHoldNoFailure) {
  const json report = json_of({"cases", TILEFOLD_HANDED_CASES, "--json"});
  EXPECT_EQ(report.at("failed"), 0);
  EXPECT_GT(report.at("passed"), 50);
}

TEST_F(CliTest, FilesWithoutCasesAreFileErrors) {
  write_text("empty.jsonl", "");
  write_text("text.jsonl", "hello\n");
  write_text("keys.jsonl", "{\"id\": \"x\"}\n");
  expect_error({"cases", "missing.jsonl"}, 4, "missing.jsonl");
  expect_error({"cases", "empty.jsonl"}, 4, "empty.jsonl: it holds no case");
  expect_error({"cases", "."}, 4, "it holds no case");
  expect_error({"cases", "text.jsonl"}, 4, "line 1 of 'text.jsonl' is no case");
  expect_error({"cases", "keys.jsonl"}, 4, "line 1 of 'keys.jsonl' is no case");
  expect_error({"cases"}, 2, "file is required");
}

// The measurement itself takes a minute; what it would do first is refused here.
TEST_F(CliTest, BenchRefusesBeforeItMeasures) {
  expect_error({"bench", "cpu", "--peers", "nobody"}, 2, "--peers");
  expect_error({"bench", "cpu", "--dtype", "f64"}, 2, "--dtype");
  expect_error({"bench", "cpu", "--threads", "-1"}, 2, "--threads");
  expect_error({"bench", "cpu", "--csv", "nowhere/a.csv"}, 4, "nowhere/a.csv");
  expect_error({"bench", "cpu", "--svg", "nowhere/a.svg"}, 4, "nowhere/a.svg");
  expect_error({"bench", "forward", "--csv", "nowhere/a.csv"}, 4, "nowhere/a.csv");
  expect_error({"bench", "forward", "--set", "gqa", "--svg", "a.svg"}, 2, "--svg draws the grid");
  expect_error({"bench", "forward", "--seq", "32768", "--svg", "a.svg"}, 2, "--seq holds none");
  expect_error({"bench", "forward", "--runs", "101"}, 2, "'101' is not a whole number");
  expect_error({"bench", "forward", "--head-dim", "192"}, 2, "are no whole heads of it");
}

TEST_F(CliTest, FilesOutliveARefusedBench) {
  write_text("old.csv", "kept");
  expect_error({"bench", "cpu", "--csv", "old.csv", "--svg", "nowhere/a.svg"}, 4, "nowhere/a.svg");
  const json info = json_of({"info", "--json"});
  if (info.at("backends").size() == 1 || !info.at("cuda_absence").get<std::string>().empty()) {
    expect_error({"bench", "forward", "--csv", "old.csv", "--svg", "new.svg"}, 5, "CUDA");
    expect_error({"ladder", "--csv", "old.csv", "--svg", "new.svg"}, 5, "CUDA");
  }
  EXPECT_EQ(read_text("old.csv"), "kept");
  EXPECT_EQ(names(), Words{"old.csv"});
}

TEST_F(CliTest, BenchChartDrawsResults) {
  const std::string results = TILEFOLD_RESULTS "2026-11-30-h200-forward.csv";
  EXPECT_EQ(text_of({"bench", "chart", results, "--svg", "a.svg"}), "");
  EXPECT_THAT(read_text("a.svg"), ::testing::StartsWith("<svg "));
  expect_error({"bench", "chart", results}, 2, "--svg is required");
  expect_error({"bench", "chart", "--svg", "a.svg"}, 2, "required");
  expect_error({"bench", "chart", "missing.csv", "--svg", "a.svg"}, 4, "missing.csv");
  write_text("text.csv", "hello\n");
  expect_error({"bench", "chart", "text.csv", "--svg", "b.svg"}, 4, "text.csv: line 1 begins");
  EXPECT_FALSE(exists("b.svg"));
}

}  // namespace

}  // namespace tilefold::testing
