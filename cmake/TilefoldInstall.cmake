# Installs the library, its public headers and the CMake package that find_package(tilefold) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS tilefold EXPORT tilefold_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/tilefold DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TILEFOLD_CUDA_FOUND)
  install(TARGETS tilefold_formula_kernels EXPORT tilefold_targets)
  install(DIRECTORY src/cuda/tile src/cuda/kernels
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tilefold/kernels/cuda
    FILES_MATCHING PATTERN "*.cuh" PATTERN "*.hpp")
endif()
install(EXPORT tilefold_targets NAMESPACE tilefold::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilefold FILE tilefold-targets.cmake)
configure_package_config_file(cmake/tilefold-config.cmake.in tilefold-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilefold)
write_basic_package_version_file(tilefold-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tilefold-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/tilefold-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilefold)
if(TARGET tilefold_cli)
  install(TARGETS tilefold_cli DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
