// Starts the child with two pipes and exchanges JSON lines with it.
#include "bench/peers.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <nlohmann/json.hpp>

extern char** environ;

namespace tilefold::bench {

namespace {

using nlohmann::json;

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    std::array<int, 2> ends{};
    // Closed in the child but for the two ends that become its standard streams.
    if (pipe2(ends.data(), O_CLOEXEC) == 0) read = ends[0], write = ends[1];
  }
};

}  // namespace

void Peers::start(const std::string& python) {
  const Pipe requests, answers;
  if (requests.read < 0 || answers.read < 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, requests.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answers.write, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string program = python, flag = "-c", script = peer_script;
  char* arguments[] = {program.data(), flag.data(), script.data(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(requests.read);
  close(answers.write);
  if (failed != 0) {
    close(requests.write);
    close(answers.read);
    return;
  }
  child_ = child;
  to_ = fdopen(requests.write, "w");
  from_ = fdopen(answers.read, "r");
}

std::optional<std::string> Peers::ask(const std::string& request) {
  if (to_ == nullptr || from_ == nullptr) return std::nullopt;
  if (std::fprintf(to_, "%s\n", request.c_str()) < 0 || std::fflush(to_) != 0) return std::nullopt;
  std::string line;
  for (int c = std::fgetc(from_); c != '\n'; c = std::fgetc(from_)) {
    if (c == EOF) return std::nullopt;
    line.push_back(char(c));
  }
  return line;
}

Peers::Peers(const std::string& python, int threads, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return;
  // A child that dies must be an error of the next write, not the end of this process.
  std::signal(SIGPIPE, SIG_IGN);
  start(python);
  const auto line = ask(json{{"op", "list"}, {"threads", threads}, {"peers", wanted}}.dump());
  const json answer = line ? json::parse(*line, nullptr, false) : json();
  if (!answer.is_object()) {
    for (const std::string& peer : wanted) absent_[peer] = python + " does not run the peer script";
    return;
  }
  using Texts = std::map<std::string, std::string>;
  present_ = answer.value("peers", Texts{});
  absent_ = answer.value("absent", Texts{});
}

Peers::~Peers() {
  if (to_ != nullptr) std::fclose(to_);  // the script ends at the end of its input
  if (from_ != nullptr) std::fclose(from_);
  if (child_ != 0) waitpid(child_, nullptr, 0);
}

std::optional<double> Peers::time(const std::string& peer, const Shape& shape) {
  const json request{{"op", "time"},
                     {"peer", peer},
                     {"dtype", name(shape.dtype)},
                     {"batch", shape.batch},
                     {"heads", shape.heads},
                     {"queries", shape.tokens},
                     {"keys", shape.tokens},
                     {"head_dim", shape.head_dim},
                     {"causal", shape.causal}};
  const auto line = ask(request.dump());
  const json answer = line ? json::parse(*line, nullptr, false) : json();
  if (!answer.is_object() || !answer.contains("seconds")) return std::nullopt;
  return answer["seconds"].get<double>();
}

}  // namespace tilefold::bench
