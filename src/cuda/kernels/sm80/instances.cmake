# One small unit an entry of registry.hpp, written into the build tree: the list sm80_instances.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/registry.hpp sm80_size REGEX "constexpr int registry_size = ")
string(REGEX REPLACE ".*registry_size = ([0-9]+).*" "\\1" sm80_size "${sm80_size}")
math(EXPR sm80_last "${sm80_size} - 1")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_LIST_DIR}/registry.hpp)
set(sm80_instances)
foreach(index RANGE ${sm80_last})
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/instances/sm80_${index}.cu)
  file(CONFIGURE OUTPUT ${unit} CONTENT
"// Entry @index@ of cuda/kernels/sm80/registry.hpp. Generated.
#include \"cuda/kernels/sm80/instance.cuh\"
template const void* tilefold::cuda::sm80::forward_function<@index@>();
" @ONLY)
  list(APPEND sm80_instances ${unit})
endforeach()
