# SPDX-License-Identifier: Apache-2.0
# Which compiler can build the PyTorch operators, asked before anything is compiled: one sentence instead of a page of
# errors. cmake/Preflight.cmake has asked for the system and for a compiler at all.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -dumpmachine
  OUTPUT_VARIABLE machine OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(machine MATCHES "musl")
  message(FATAL_ERROR
    "fusednorm: found ${machine}, a system with musl, but PyTorch has wheels for glibc only: use a Debian, Ubuntu or "
    "manylinux image instead of Alpine.")
elseif(NOT machine MATCHES "^(x86_64|aarch64)-")
  message(WARNING "fusednorm: ${machine} was never tried; x86_64 and aarch64 were.")
endif()
# PyTorch's headers need C++20 as gcc 11 and clang 14 have it.
foreach(pair GNU:11 Clang:14)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 compiler)
  list(GET pair 1 oldest)
  if(CMAKE_CXX_COMPILER_ID STREQUAL compiler AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest)
    message(FATAL_ERROR
      "fusednorm: found ${CMAKE_CXX_COMPILER} ${CMAKE_CXX_COMPILER_VERSION}, but the PyTorch operators need g++ 11 or "
      "clang++ 14: name a newer one (CXX=g++-12).")
  endif()
endforeach()
