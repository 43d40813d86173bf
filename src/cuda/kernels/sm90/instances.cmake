# One small unit an entry of registry.hpp, written into the build tree: the list sm90_instances.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/forward/registry.hpp sm90_size REGEX "constexpr int registry_size = ")
string(REGEX REPLACE ".*registry_size = ([0-9]+).*" "\\1" sm90_size "${sm90_size}")
math(EXPR sm90_last "${sm90_size} - 1")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_LIST_DIR}/forward/registry.hpp)
set(sm90_instances)
foreach(index RANGE ${sm90_last})
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/instances/sm90_forward_${index}.cu)
  file(CONFIGURE OUTPUT ${unit} CONTENT
"// Entry @index@ of cuda/kernels/sm90/forward/registry.hpp. Generated.
#include \"cuda/kernels/sm90/forward/instance.cuh\"
template const void* tilefold::cuda::sm90::forward_function<@index@>();
template int tilefold::cuda::sm90::forward_shared_bytes<@index@>();
" @ONLY)
  list(APPEND sm90_instances ${unit})
endforeach()
