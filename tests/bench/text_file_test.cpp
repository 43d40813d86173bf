// Law: a file is whole or as it was; asking whether it can be written changes nothing.
#include "bench/text_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

class TextFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("tilefold_text_file." + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::ptrdiff_t count() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(TextFile, AskingLeavesWhatIsThere) {
  write_text(path("a.csv"), "kept\n");
  require_writable(path("a.csv"));
  EXPECT_EQ(read_text(path("a.csv")), "kept\n");
  require_writable(path("b.csv"));
  EXPECT_EQ(count(), 1) << "a file that was not there is not made";
  write_text(path("a.csv"), "new");
  EXPECT_EQ(read_text(path("a.csv")), "new");
  EXPECT_EQ(count(), 1);
}

TEST_F(TextFile, RefusesBeforeTheWriting) {
  for (const std::string& bad : {path("nowhere/a.csv"), path("")}) {
    EXPECT_THROW(require_writable(bad), Error) << bad;
    EXPECT_THROW(write_text(bad, "x"), Error) << bad;
  }
  require_writable("/dev/null");
  write_text("/dev/null", "x");
}

}  // namespace

}  // namespace tilefold::bench
