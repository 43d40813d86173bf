// Reports and charts as files, which appear whole or not at all.
#pragma once

#include <string>

namespace tilefold::bench {

/// Throws Error(file_io) where write_text() would fail. What stands under the name stays: minutes
/// of measuring lie between this question and the writing, and may be refused or interrupted.
void require_writable(const std::string& path);

/// Replaces a regular file at once; a pipe or a terminal takes the text as it comes. Throws
/// Error(file_io).
void write_text(const std::string& path, const std::string& text);

/// The whole file. Throws Error(file_io).
std::string read_text(const std::string& path);

}  // namespace tilefold::bench
