// The command `ladder`, for the tool and for the program that runs it alone.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace tilefold::bench {

/// Makes what shows how far a measurement is; it is gone before results are printed.
using MakeProgress = std::function<std::function<void(double part, const std::string& note)>()>;

/// Adds the options to `command` and runs it when it is parsed. Throws Error(unsupported) without
/// CUDA or a device, Error(file_io) for files that cannot be written.
void make_ladder_command(CLI::App& command, const char* (*command_line)(),
                         const MakeProgress& make_progress = {});

}  // namespace tilefold::bench
