# Warnings of every target of the project; each one is an error.
add_library(tilefold_warnings INTERFACE)
target_compile_options(tilefold_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Werror>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 reports std::string operations as overlapping copies of 2^63 bytes (its bug 105651).
  target_compile_options(tilefold_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(TILEFOLD_JOIN_SOURCES)
  # A name of one source is shadowed in the next; and what is a source looks like a header to gcc, whose
  # types must not hold what an anonymous namespace does.
  target_compile_options(tilefold_warnings INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow;$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>>")
endif()
