# SPDX-License-Identifier: Apache-2.0
# Install rules and the package that find_package(fusednorm) finds.
include(CMakePackageConfigHelpers)

set(FUSEDNORM_TARGETS fusednorm)
if(FUSEDNORM_CUDA)
  list(APPEND FUSEDNORM_TARGETS fusednorm_cuda)
endif()
if(FUSEDNORM_TORCH)
  list(APPEND FUSEDNORM_TARGETS fusednorm_torch)
endif()
install(TARGETS ${FUSEDNORM_TARGETS} EXPORT fusednorm-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fusednorm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET fusednorm-bench)
  install(TARGETS fusednorm-bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(destination ${CMAKE_INSTALL_LIBDIR}/cmake/fusednorm)
install(EXPORT fusednorm-targets NAMESPACE fusednorm:: DESTINATION ${destination})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/fusednorm-config.cmake.in
  ${PROJECT_BINARY_DIR}/fusednorm-config.cmake INSTALL_DESTINATION ${destination})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fusednorm-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fusednorm-config.cmake ${PROJECT_BINARY_DIR}/fusednorm-config-version.cmake
  DESTINATION ${destination})

# For builds without CMake. A static library brings what it needs along; a shared one has it linked. The prefix is that of
# the installation, which `cmake --install --prefix` may have changed: pkg-config finds it from where the file lies.
set(FUSEDNORM_PC_PRIVATE ".private")
set(FUSEDNORM_PC_LIBS "")
get_target_property(type fusednorm TYPE)
if(type STREQUAL "STATIC_LIBRARY")
  set(FUSEDNORM_PC_PRIVATE "")
  if(FUSEDNORM_OPENMP)
    set(FUSEDNORM_PC_LIBS "${OpenMP_CXX_FLAGS}")
  endif()
endif()
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" FUSEDNORM_PC_PREFIX "\${pcfiledir}/${up}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/fusednorm.pc.in ${PROJECT_BINARY_DIR}/fusednorm.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/fusednorm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
