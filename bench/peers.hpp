// Other libraries' attention, timed in a child process that runs bench/peers/cpu_sdpa.py.
#pragma once

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tilefold/dtype.hpp"

namespace tilefold::bench {

/// The text of bench/peers/cpu_sdpa.py.
extern const char* const peer_script;

/// One attention call: dense, equal query and KV heads, as many keys as queries.
struct Shape {
  DType dtype = DType::f32;
  int batch = 1, heads = 1, tokens = 0, head_dim = 0;
  bool causal = false;
};

/// A line-by-line talk with one Python process. Where Python or every peer is missing, present() is
/// empty and absent() says why.
class Peers {
 public:
  Peers(const std::string& python, int threads, const std::vector<std::string>& wanted);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  const std::map<std::string, std::string>& present() const { return present_; }  // name -> version
  const std::map<std::string, std::string>& absent() const { return absent_; }    // name -> reason
  /// Seconds of one call; no value where the peer refuses the shape.
  std::optional<double> time(const std::string& peer, const Shape& shape);

 private:
  void start(const std::string& python);
  std::optional<std::string> ask(const std::string& request);

  std::map<std::string, std::string> present_, absent_;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
  int child_ = 0;
};

}  // namespace tilefold::bench
