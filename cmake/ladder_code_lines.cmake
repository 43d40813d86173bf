# Counts the lines of each ladder kernel that are neither blank nor comment alone, at build time.
#
#   cmake -DSOURCE=<repository> -DHEADER=<file to write> -P ladder_code_lines.cmake

set(kernels src/cuda/kernels)
file(GLOB paths RELATIVE ${SOURCE} ${SOURCE}/${kernels}/ladder/*.cuh)

function(count_code path result)
  file(READ ${SOURCE}/${path} text)
  # What CMake reads as list syntax would miscount.
  string(REGEX REPLACE "[][;\\\\]" "x" text "\n${text}")
  string(REGEX MATCHALL "\n[ \t]*([^ \t\n/]|/[^/\n])" lines "${text}")
  list(LENGTH lines count)
  set(${result} ${count} PARENT_SCOPE)
endfunction()

set(entries "")
foreach(path ${paths})
  count_code(${path} count)
  string(APPEND entries "  if (path == \"${path}\") return ${count};\n")
endforeach()
foreach(family sm80 sm90/forward)
  file(GLOB production RELATIVE ${SOURCE} ${SOURCE}/${kernels}/${family}/*.cuh ${SOURCE}/${kernels}/${family}/*.hpp)
  set(total 0)
  foreach(path ${production})
    count_code(${path} count)
    math(EXPR total "${total} + ${count}")
  endforeach()
  string(APPEND entries "  if (path == \"${kernels}/${family}/\") return ${total};\n")
endforeach()

set(text "// Written by cmake/ladder_code_lines.cmake.
#pragma once

#include <string_view>

namespace tilefold::cuda::ladder {

/// Lines of code of a kernel's file, or of the files of a folder; 0 for others.
constexpr int code_lines(std::string_view path) {
${entries}  return 0;
}

}  // namespace tilefold::cuda::ladder
")
set(written "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} written)
endif()
if(NOT written STREQUAL text)
  file(WRITE ${HEADER} "${text}")
endif()
