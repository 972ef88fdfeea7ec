# Install rules and the package that find_package(fusednorm) finds.
include(CMakePackageConfigHelpers)

set(FUSEDNORM_TARGETS fusednorm)
if(FUSEDNORM_CUDA)
  list(APPEND FUSEDNORM_TARGETS fusednorm_cuda)
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
