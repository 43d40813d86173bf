// The built tool as a child process, in a fresh directory of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tilefold::testing {

/// What a run left: `code` is the exit code, or -1 where a signal ended it.
struct ToolRun {
  int code = -1;
  std::string out, err;
};

/// A directory that lives as long as the test; the tool runs in it, so that files need no path.
class ToolTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  ToolRun tool(const std::vector<std::string>& arguments) const;
  /// The run ends with `code` and one line "tilefold: ..." that holds `message`.
  void expect_error(const std::vector<std::string>& arguments, int code,
                    const std::string& message) const;
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }
  void write_text(const std::string& name, const std::string& text) const;
  std::string read_text(const std::string& name) const;
  /// Every name in the directory, sorted.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path directory_, logs_;
};

}  // namespace tilefold::testing
