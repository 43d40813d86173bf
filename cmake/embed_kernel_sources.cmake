# Writes the headers that NVRTC reads into one .cpp, as strings: those that ROOTS include, directly or
# not. A header that nothing includes is not in it, and one that cannot be found is an error.
#
#   cmake -DSOURCE=<repository> -DROOTS="a.cuh;b.hpp" -DOUTPUT=<.cpp to write> -DDEPFILE=<.d to write>
#     -P embed_kernel_sources.cmake
#
# Headers are named as they are included: "cuda/tile/ring.cuh", "tilefold/score/masks.hpp".

cmake_minimum_required(VERSION 3.25)

function(path_of name result)
  foreach(folder src include)
    if(EXISTS ${SOURCE}/${folder}/${name})
      set(${result} ${SOURCE}/${folder}/${name} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "a kernel includes \"${name}\", which is neither in src/ nor in include/")
endfunction()

set(pending ${ROOTS})
set(names)
while(pending)
  list(POP_FRONT pending name)
  if(name IN_LIST names)
    continue()
  endif()
  list(APPEND names ${name})
  path_of(${name} path)
  file(STRINGS ${path} includes REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS includes)
    if(NOT line MATCHES "include[ \t]*\"([^\"]+)\"")
      message(FATAL_ERROR "${path} has '${line}': NVRTC finds no header but our own")
    endif()
    list(APPEND pending ${CMAKE_MATCH_1})
  endforeach()
endwhile()
list(SORT names)

set(paths)
set(text "// Written by cmake/embed_kernel_sources.cmake.\n#include \"cuda/jit/sources.hpp\"\n
namespace tilefold::cuda::jit {\n\nnamespace {\n\nconst KernelSource sources[] = {\n")
foreach(name IN LISTS names)
  path_of(${name} path)
  string(APPEND paths " \\\n  ${path}")
  file(READ ${path} content)
  string(FIND "${content}" ")tilefold\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${path} holds the sign that ends a string here")
  endif()
  string(APPEND text "    {\"${name}\", R\"tilefold(${content})tilefold\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n
std::span<const KernelSource> kernel_sources() { return sources; }\n
}  // namespace tilefold::cuda::jit\n")
file(WRITE ${OUTPUT} "${text}")
file(WRITE ${DEPFILE} "${OUTPUT}:${paths}\n")
