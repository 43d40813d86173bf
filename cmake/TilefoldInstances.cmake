# One small unit an entry of a table of kernels, written into the build tree: kernels compile side by
# side, and a changed entry compiles alone.
#
#   tilefold_instances(sm80_instances
#     TABLE ${CMAKE_CURRENT_SOURCE_DIR}/kernels/sm80/registry.hpp   # holds "constexpr int SIZE = 30"
#     SIZE registry_size
#     UNIT instances/sm80                                           # _0.cu, _1.cu, ... of the build tree
#     INCLUDE cuda/kernels/sm80/instance.cuh
#     TEMPLATES "const void* tilefold::cuda::sm80::forward_function<@index@>()")
#
# sets sm80_instances to the list of units. The table's size is read from its text: configuring runs
# again when that changes.
function(tilefold_instances units)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TABLE;SIZE;UNIT;INCLUDE" "TEMPLATES")
  file(STRINGS ${ARG_TABLE} size REGEX "constexpr int ${ARG_SIZE} = ")
  string(REGEX REPLACE ".* = ([0-9]+).*" "\\1" size "${size}")
  if(NOT size MATCHES "^[1-9][0-9]*$")
    message(FATAL_ERROR "${ARG_TABLE} has no line `constexpr int ${ARG_SIZE} = N;`")
  endif()
  math(EXPR last "${size} - 1")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARG_TABLE})
  cmake_path(RELATIVE_PATH ARG_TABLE BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE table)
  set(text "// Entry @index@ of ${table}. Generated.\n#include \"${ARG_INCLUDE}\"\n")
  foreach(template IN LISTS ARG_TEMPLATES)
    string(APPEND text "template ${template};\n")
  endforeach()
  set(all)
  foreach(index RANGE ${last})
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/${ARG_UNIT}_${index}.cu)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
    list(APPEND all ${unit})
  endforeach()
  set(${units} ${all} PARENT_SCOPE)
endfunction()
