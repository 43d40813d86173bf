# Target `stage`: what runs on a GPU machine that has only a driver, under build/stage: bin/ holds the
# tool and the tests, stripped, lib/ the shared libraries that a bare machine lacks.
if(NOT TILEFOLD_CUDA_FOUND)
  return()
endif()
set(stage_programs)
foreach(program tilefold_cli test_cuda test_cuda_jit test_ladder_gpu)
  if(TARGET ${program})
    list(APPEND stage_programs ${program})
    set_property(TARGET ${program} APPEND PROPERTY BUILD_RPATH "$ORIGIN/../lib")
  endif()
endforeach()
set(stage_files)
foreach(program ${stage_programs})
  list(APPEND stage_files $<TARGET_FILE:${program}>)
endforeach()
add_custom_target(stage
  COMMAND ${CMAKE_SOURCE_DIR}/scripts/stage.sh ${CMAKE_SOURCE_DIR}/build/stage ${stage_files}
  DEPENDS ${stage_programs} VERBATIM)
