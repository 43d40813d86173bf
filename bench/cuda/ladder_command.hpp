// The command `ladder`, for the tool and for the program that runs it alone.
#pragma once

namespace CLI {
class App;
}

namespace tilefold::bench {

/// Adds the options to `command` and runs it when it is parsed. Throws Error(unsupported) without
/// CUDA or a device, Error(file_io) for files that cannot be written.
void make_ladder_command(CLI::App& command, const char* (*command_line)());

}  // namespace tilefold::bench
