// Where ncu is found, and what is read of its log.
#include "bench/cuda/ladder_profile.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tilefold/error.hpp"

namespace tilefold::bench {
namespace {

namespace fs = std::filesystem;

// As ncu 2025.3 prints `--csv --print-units base`: its own lines, the program's, then a line a
// kernel and metric.
const std::string head =
    "==PROF== Connected to process 4242 (tilefold)\n"
    "==PROF== Profiling \"rung_marker\" - 0: 0%....50%....100% - 1 pass\n"
    "a line of the program, \"quoted\"\n"
    "==PROF== Disconnected from process 4242\n"
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\","
    "\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"Section Name\",\"Metric Name\","
    "\"Metric Unit\",\"Metric Value\"\n";

std::string line(int id, const std::string& kernel, const std::string& metric,
                 const std::string& value) {
  return "\"" + std::to_string(id) + "\",\"4242\",\"tilefold\",\"127.0.0.1\",\"" + kernel +
         "\",\"1\",\"7\",\"(128, 1, 1)\",\"(8192, 1, 1)\",\"0\",\"9.0\",\"Command line profiler "
         "metrics\",\"" +
         metric + "\",\"\",\"" + value + "\"\n";
}

const std::string marker = "tilefold::bench::<unnamed>::rung_marker()";
const std::string fill =
    "tilefold::bench::<unnamed>::write_normal(void *, Element, long long, unsigned long long)";
const std::string scores =
    "void tilefold::cuda::ladder::naive::scores<64>(tilefold::cuda::ladder::Operands<float>, "
    "tilefold::cuda::ladder::Shape)";
const std::string v2 =
    "void tilefold::cuda::ladder::v2::forward<64>(tilefold::cuda::ladder::Operands<float>, "
    "tilefold::cuda::ladder::Shape)";

TEST(LadderProfile, CountersGoToTheRungBehindWhoseMarkerTheyStand) {
  const std::string text =
      head + line(0, marker, "dram__bytes.sum", "640") +
      line(0, marker, "lts__t_sector_hit_rate.pct", "50") +
      line(1, fill, "dram__bytes.sum", "134217728") +
      line(2, scores, "dram__bytes.sum", "8,657,043,456") +
      line(2, scores, "lts__t_sector_hit_rate.pct", "61.25") +
      line(2, scores, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "12") +
      line(3, scores, "dram__bytes.sum", "7") +
      line(4, marker, "dram__bytes.sum", "640") +  // a rung that was refused
      line(5, marker, "dram__bytes.sum", "640") +
      line(6, v2, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "0") +
      line(6, v2, "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", "0.31") +
      line(6, v2, "something__else.sum", "1");
  const std::vector<std::string> rungs = {"naive", "v1", "v2"};
  const auto counters = parse_counters(text, rungs);
  ASSERT_EQ(counters.size(), 3u);
  EXPECT_EQ(counters[0].rung, "naive");
  EXPECT_EQ(counters[0].kernel, "naive::scores<64>");
  EXPECT_EQ(counters[0].device_bytes, "8657043456") << "thousands are not grouped";
  EXPECT_EQ(counters[0].l2_hit_percent, "61.25");
  EXPECT_EQ(counters[0].bank_conflicts, "12");
  EXPECT_EQ(counters[0].tensor_pipe_percent, "-") << "not asked for";
  EXPECT_EQ(counters[1].device_bytes, "7") << "another launch of the same kernel";
  EXPECT_EQ(counters[2].rung, "v2") << "v1 launched nothing";
  EXPECT_EQ(counters[2].barrier_stalls, "0.31");
  EXPECT_EQ(counters[2].tensor_pipe_percent, "0");
}

TEST(LadderProfile, KernelsBeforeTheFirstMarkerBelongToNobody) {
  const std::vector<std::string> rungs = {"v2"};
  const std::string text = head + line(0, v2, "dram__bytes.sum", "5") +
                           line(1, marker, "dram__bytes.sum", "0") +
                           line(2, v2, "dram__bytes.sum", "6");
  const auto counters = parse_counters(text, rungs);
  ASSERT_EQ(counters.size(), 1u);
  EXPECT_EQ(counters[0].device_bytes, "6");
}

TEST(LadderProfile, ARefusalOfNcuIsPassedOn) {
  try {
    parse_counters("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", {});
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("ERR_NVGPUCTRPERM"), std::string::npos);
  }
}

TEST(LadderProfile, WritesATableAndCsv) {
  const std::vector<LadderCounters> counters = {
      {"v2", "v2::forward<64>", "17", "1", "2", "3", "4"}};
  EXPECT_NE(to_table(counters).find("v2::forward<64>"), std::string::npos);
  EXPECT_EQ(to_csv(counters, "made by hand"),
            "# made by hand\nrung,kernel,device_bytes,l2_hit_percent,tensor_pipe_percent,"
            "barrier_stalls,bank_conflicts\nv2,\"v2::forward<64>\",17,1,2,3,4\n");
}

class FoundNcu : public ::testing::Test {
 protected:
  // Tests of one fixture may run side by side.
  FoundNcu()
      : root_(fs::path(::testing::TempDir()) /
              (std::string("ncu_places_") +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(root_);
    for (const char* name : {"PATH", "CUDA_HOME", "TILEFOLD_NCU"}) {
      const char* value = std::getenv(name);
      kept_.emplace_back(name, value == nullptr ? "" : value);
      unsetenv(name);
    }
  }
  ~FoundNcu() override {
    for (const auto& [name, value] : kept_)
      if (!value.empty()) setenv(name.c_str(), value.c_str(), 1);
    fs::remove_all(root_);
  }
  fs::path install(const std::string& folder) {
    fs::create_directories(root_ / folder);
    std::ofstream(root_ / folder / "ncu") << "#!/bin/sh\n";
    return root_ / folder / "ncu";
  }
  fs::path root_;

 private:
  std::vector<std::pair<std::string, std::string>> kept_;
};

TEST_F(FoundNcu, WhereToolkitsAndNsightComputeInstallIt) {
  EXPECT_EQ(find_ncu(root_), fs::path());
  const fs::path old = install("opt/nvidia/nsight-compute/2024.1.1");
  EXPECT_EQ(find_ncu(root_), old);
  const fs::path newer = install("opt/nvidia/nsight-compute/2025.3.0");
  EXPECT_EQ(find_ncu(root_), newer);
  const fs::path inside = install("usr/local/cuda-13.0/nsight-compute-2025.3");
  EXPECT_EQ(find_ncu(root_), inside);
  const fs::path toolkit = install("usr/local/cuda-13.0/bin");
  EXPECT_EQ(find_ncu(root_), toolkit);
  const fs::path on_path = install("somewhere");
  setenv("PATH", ("/nowhere:" + on_path.parent_path().string()).c_str(), 1);
  EXPECT_EQ(find_ncu(root_), on_path);
  setenv("TILEFOLD_NCU", old.c_str(), 1);
  EXPECT_EQ(find_ncu(root_), old) << "a name that is given wins";
  setenv("TILEFOLD_NCU", "/no/such/ncu", 1);
  EXPECT_EQ(find_ncu(root_), fs::path()) << "and nothing stands in for it";
  unsetenv("TILEFOLD_NCU");
}

// A card that has only one of the five counters, under its older name.
TEST_F(FoundNcu, IsAskedForWhatTheCardHas) {
  setenv("PATH", "/usr/bin:/bin", 1);
  const fs::path ncu = install("opt/nvidia/nsight-compute/2025.3.0");
  std::ofstream(ncu)
      << "#!/bin/sh\n"
         "if [ \"$1\" = --query-metrics ]; then\n"
         "  echo 'sm__inst_executed_pipe_tensor   Counter   inst   # of instructions'\n"
         "  exit\n"
         "fi\n"
         "echo '==PROF== Profiling \"rung_marker\" - 0: 0%....100% - 1 pass'\n"
         "cat <<'END'\n"
      << head << line(0, marker, "x", "0")
      << line(1, v2, "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "12.5")
      << "END\necho \"$@\" > '" << (root_ / "arguments").string() << "'\n";
  fs::permissions(ncu, fs::perms::owner_all);
  setenv("TILEFOLD_NCU", ncu.c_str(), 1);
  std::vector<std::string> notes;
  const std::vector<std::string> rungs = {"v2"};
  const auto counters = profile("program --once", rungs,
                                [&](double, const std::string& note) { notes.push_back(note); });
  ASSERT_EQ(counters.size(), 1u);
  EXPECT_EQ(counters[0].tensor_pipe_percent, "12.5");
  EXPECT_EQ(counters[0].device_bytes, "-");
  EXPECT_EQ(notes, std::vector<std::string>{"ncu: v2"});
  std::string arguments;
  std::ifstream file(root_ / "arguments");
  std::getline(file, arguments);
  EXPECT_EQ(arguments,
            "--clock-control none --csv --print-units base --metrics "
            "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active program --once");
}

}  // namespace
}  // namespace tilefold::bench
