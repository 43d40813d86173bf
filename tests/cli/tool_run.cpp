#include "tool_run.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tilefold::testing {

namespace {

std::filesystem::path fresh_directory() {
  std::string name = (std::filesystem::temp_directory_path() / "tilefold-cli-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
  return name;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text = "tilefold";
  for (const std::string& word : words) text += " '" + word + "'";
  return text;
}

}  // namespace

void ToolTest::SetUp() {
  directory_ = fresh_directory();
  logs_ = fresh_directory();
}

void ToolTest::TearDown() {
  std::filesystem::remove_all(directory_);
  std::filesystem::remove_all(logs_);
}

ToolRun ToolTest::tool(const std::vector<std::string>& arguments) const {
  const std::string out = (logs_ / "out").string(), err = (logs_ / "err").string();
  std::vector<char*> words{const_cast<char*>(TILEFOLD_TOOL)};
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), flags, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, directory_.c_str());
  pid_t child = 0;
  const int error = posix_spawn(&child, TILEFOLD_TOOL, &actions, nullptr, words.data(), ::environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("the tool cannot be started");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(out), text_of(err)};
}

void ToolTest::expect_error(const std::vector<std::string>& arguments, int code,
                            const std::string& message) const {
  const ToolRun run = tool(arguments);
  EXPECT_EQ(run.code, code) << joined(arguments) << "\n" << run.out << run.err;
  EXPECT_THAT(run.err, ::testing::StartsWith("tilefold: ")) << joined(arguments);
  EXPECT_THAT(run.err, ::testing::HasSubstr(message)) << joined(arguments);
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << joined(arguments) << "\n"
                                                                 << run.err;
}

void ToolTest::write_text(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
}

std::string ToolTest::read_text(const std::string& name) const { return text_of(path(name)); }

std::vector<std::string> ToolTest::names() const {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory_))
    found.push_back(entry.path().filename().string());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tilefold::testing
