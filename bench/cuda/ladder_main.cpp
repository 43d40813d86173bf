// `tilefold ladder` as a program of its own, small enough to carry to a machine with a GPU.
//
// Exit codes: 0 measured, 2 bad usage, 3 refused, 4 file error, 5 no CUDA device.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/cuda/ladder_command.hpp"
#include "tilefold/error.hpp"

namespace {

int exit_code(tilefold::ErrorCode code) {
  switch (code) {
    case tilefold::ErrorCode::file_io: return 4;
    case tilefold::ErrorCode::unsupported: return 5;
    default: return 3;
  }
}

const char* program_name() { return "ladder_bench"; }

}  // namespace

int main(int count, char** arguments) {
  CLI::App program{"The ladder of attention kernels, each measured on this machine's GPU"};
  tilefold::bench::make_ladder_command(program, program_name, [] {
    return [](double part, const std::string& note) {
      std::fprintf(stderr, "%3.0f %%  %s\n", 100 * part, note.c_str());
    };
  });
  try {
    program.parse(count, arguments);
  } catch (const CLI::Success& asked) {
    return program.exit(asked);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "ladder_bench: %s\n", error.what());
    return 2;
  } catch (const tilefold::Error& error) {
    std::fprintf(stderr, "ladder_bench: %s\n", error.what());
    return exit_code(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ladder_bench: %s\n", error.what());
    return 3;
  }
  return 0;
}
