# SPDX-License-Identifier: Apache-2.0
# Asked before project(), whose own words for a machine that does not fit fill a page.
set(fusednorm_system Linux)
if(CMAKE_SYSTEM_NAME)
  set(fusednorm_system ${CMAKE_SYSTEM_NAME})
elseif(CMAKE_HOST_APPLE)
  set(fusednorm_system Darwin)
elseif(CMAKE_HOST_WIN32)
  set(fusednorm_system Windows)
endif()
if(FUSEDNORM_TORCH AND NOT fusednorm_system STREQUAL "Linux")
  message(FATAL_ERROR
    "fusednorm: found ${fusednorm_system}, but the PyTorch operators are built on Linux only: use WSL2 on Windows, a Linux "
    "container on macOS, or the C++ library without them (-DFUSEDNORM_TORCH=OFF; never tried there).")
endif()
if(NOT CMAKE_CXX_COMPILER AND NOT CMAKE_TOOLCHAIN_FILE AND NOT DEFINED ENV{CMAKE_TOOLCHAIN_FILE})
  set(fusednorm_asked c++ g++ clang++ CC)
  if(DEFINED ENV{CXX})
    # CXX may hold arguments, too.
    separate_arguments(fusednorm_asked UNIX_COMMAND "$ENV{CXX}")
    list(GET fusednorm_asked 0 fusednorm_asked)
  endif()
  find_program(fusednorm_compiler NAMES ${fusednorm_asked} PATHS /usr/bin /usr/local/bin NO_CACHE)
  if(NOT fusednorm_compiler)
    list(JOIN fusednorm_asked ", " fusednorm_asked)
    message(FATAL_ERROR
      "fusednorm: found no C++ compiler (${fusednorm_asked}), but one is needed, g++ 11 or clang++ 14 or newer: "
      "apt install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora, RHEL), or name one with CXX=.")
  endif()
endif()
