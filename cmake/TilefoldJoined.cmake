# TILEFOLD_JOIN_SOURCES compiles several sources of a target as one: the sanitizer presets do, which
# nobody ships. What each source includes for itself, and what it shadows, other builds see.
option(TILEFOLD_JOIN_SOURCES "Compile several sources of a target as one" OFF)

# tilefold_join(TARGET [APART source...])
#
# APART: sources that include themselves, or have a name of another's.
function(tilefold_join target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "APART")
  if(NOT TILEFOLD_JOIN_SOURCES)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  set_source_files_properties(${arg_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
