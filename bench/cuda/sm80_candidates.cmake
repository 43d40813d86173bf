# One small unit a row of sm80_candidates.hpp, written into the build tree: the list
# sm80_candidate_units.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/sm80_candidates.hpp sm80_candidate_count
  REGEX "constexpr int sm80_candidate_count = ")
string(REGEX REPLACE ".*candidate_count = ([0-9]+).*" "\\1" sm80_candidate_count
  "${sm80_candidate_count}")
math(EXPR sm80_candidate_last "${sm80_candidate_count} - 1")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_LIST_DIR}/sm80_candidates.hpp)
set(sm80_candidate_units)
foreach(index RANGE ${sm80_candidate_last})
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/candidates/sm80_candidate_${index}.cu)
  file(CONFIGURE OUTPUT ${unit} CONTENT
"// Row @index@ of bench/cuda/sm80_candidates.hpp. Generated.
#include \"bench/cuda/sm80_candidate.cuh\"
template const void* tilefold::bench::sm80_candidate_function<@index@>();
" @ONLY)
  list(APPEND sm80_candidate_units ${unit})
endforeach()
