# One small unit a kernel of a formula, so that they compile side by side:
#
#   tilefold_formula_kernels_of(test_formulas INCLUDE cuda/compiled_formulas.hpp NAMESPACE tilefold::testing
#     KERNELS "documents, CausalDocuments, Unchanged, bf16, 128" ...)
#
# makes the object library test_formulas. Its objects belong into the program itself: from an archive a
# linker takes no unit that only registers itself.
function(tilefold_formula_kernels_of target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "INCLUDE;NAMESPACE" "KERNELS")
  set(units)
  set(number 0)
  foreach(kernel IN LISTS ARG_KERNELS)
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/formulas/${target}_${number}.cu)
    file(CONFIGURE OUTPUT ${unit} CONTENT "// A kernel of ${ARG_INCLUDE}. Generated.
#include \"${ARG_INCLUDE}\"
#include \"tilefold/cuda/instantiate.cuh\"
namespace ${ARG_NAMESPACE} {
using namespace score;
TILEFOLD_INSTANTIATE_FORWARD(${kernel});
}
" @ONLY)
    list(APPEND units ${unit})
    math(EXPR number "${number} + 1")
  endforeach()
  add_library(${target} OBJECT ${units})
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES 90a-real)
  target_link_libraries(${target} PRIVATE tilefold_formula_kernels)
  target_compile_options(${target} PRIVATE "SHELL:-Werror all-warnings"
    "SHELL:-Xcompiler -Wall,-Wextra,-Wshadow,-Werror" --compress-mode=size)
  tilefold_record_compiles(${target})
endfunction()
