# SPDX-License-Identifier: Apache-2.0
# fusednorm_libtorch: the headers and libraries of PyTorch, and what is known of that PyTorch:
#   FUSEDNORM_TORCH_VERSION    2.15.0+cu132
#   FUSEDNORM_TORCH_CUDA       13.2, or None
#   FUSEDNORM_TORCH_CXX11_ABI  the C++ ABI of its std::string
#
# FUSEDNORM_TORCH_DIRECTORY is the folder that holds include/ and lib/: of a libtorch, or of the Python package for
# another machine. Without it Python_EXECUTABLE says where its torch is; -I looks past pip's build isolation to the torch
# that is installed next to it: the one that will load what is built here.
#
# find_package(Torch) would add flags for every target and architectures of its own; this target names only what an
# operator library needs. Nothing is imported: the same lines serve a libtorch without Python and a cross-build.
include_guard(GLOBAL)
set(FUSEDNORM_TORCH_OLDEST 2.6)
include(${CMAKE_CURRENT_LIST_DIR}/Platform.cmake)

if(NOT FUSEDNORM_TORCH_DIRECTORY)
  find_package(Python COMPONENTS Interpreter)
  if(NOT Python_FOUND OR Python_VERSION VERSION_LESS 3.10)
    message(FATAL_ERROR
      "fusednorm: found Python ${Python_VERSION}, but the PyTorch operators need 3.10 or newer: choose one with "
      "-DPython_EXECUTABLE=, or name a libtorch with -DFUSEDNORM_TORCH_DIRECTORY=.")
  endif()
  execute_process(
    COMMAND ${Python_EXECUTABLE} -I -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '', end='')"
    OUTPUT_VARIABLE FUSEDNORM_TORCH_DIRECTORY)
  if(NOT FUSEDNORM_TORCH_DIRECTORY)
    message(FATAL_ERROR
      "fusednorm: ${Python_EXECUTABLE} has no torch, but the operators are built against an installed one: "
      "pip install 'torch>=${FUSEDNORM_TORCH_OLDEST}' first, then again pip install --no-build-isolation of fusednorm.")
  endif()
endif()
if(NOT EXISTS ${FUSEDNORM_TORCH_DIRECTORY}/include/ATen/Config.h)
  message(FATAL_ERROR
    "fusednorm: ${FUSEDNORM_TORCH_DIRECTORY} has no include/ATen/Config.h: expected a PyTorch with its headers, as in "
    "the wheels of PyPI and in the libtorch archives.")
endif()

set(FUSEDNORM_TORCH_CUDA None)
if(EXISTS ${FUSEDNORM_TORCH_DIRECTORY}/version.py)
  file(READ ${FUSEDNORM_TORCH_DIRECTORY}/version.py facts)
  string(REGEX MATCH "__version__ = '([^']+)'" matched "${facts}")
  set(FUSEDNORM_TORCH_VERSION ${CMAKE_MATCH_1})
  if(facts MATCHES "\ncuda[^=\n]*= '([0-9.]+)'")
    set(FUSEDNORM_TORCH_CUDA ${CMAKE_MATCH_1})
  endif()
else()
  file(STRINGS ${FUSEDNORM_TORCH_DIRECTORY}/build-version FUSEDNORM_TORCH_VERSION LIMIT_COUNT 1)
  if(FUSEDNORM_TORCH_VERSION MATCHES "\\+cu([0-9]+)([0-9])$")
    set(FUSEDNORM_TORCH_CUDA ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
  endif()
endif()
if(FUSEDNORM_TORCH_VERSION VERSION_LESS FUSEDNORM_TORCH_OLDEST)
  message(FATAL_ERROR
    "fusednorm: found torch ${FUSEDNORM_TORCH_VERSION}, but the operators need ${FUSEDNORM_TORCH_OLDEST} or newer: "
    "pip install --upgrade torch.")
endif()
# x86 wheels of 2.6 have the old ABI. std::string crosses between the core and the operators, so cmake/CxxAbi.cmake
# compiles the core, and every target that links it, the same way.
set(FUSEDNORM_TORCH_CXX11_ABI 1)
file(STRINGS ${FUSEDNORM_TORCH_DIRECTORY}/share/cmake/Torch/TorchConfig.cmake old_abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
if(old_abi)
  set(FUSEDNORM_TORCH_CXX11_ABI 0)
endif()

# PyTorch hands out CUDA structures (cudaDeviceProp) whose layout differs between majors.
function(fusednorm_check_cuda_major nvcc version)
  string(REGEX MATCH "^[0-9]+" torch_major "${FUSEDNORM_TORCH_CUDA}")
  string(REGEX MATCH "^[0-9]+" nvcc_major "${version}")
  if(NOT torch_major OR torch_major EQUAL nvcc_major)
    return()
  endif()
  message(FATAL_ERROR
    "fusednorm: torch ${FUSEDNORM_TORCH_VERSION} was built with CUDA ${FUSEDNORM_TORCH_CUDA}, but ${nvcc} is of CUDA "
    "${version}, and the two have to be of one major version. Name an nvcc of CUDA ${torch_major} "
    "(CUDACXX=/usr/local/cuda-${torch_major}/bin/nvcc), install a torch for CUDA ${nvcc_major}, or build without CUDA: "
    "FUSEDNORM_CUDA=OFF.")
endfunction()

add_library(fusednorm_libtorch INTERFACE)
target_include_directories(fusednorm_libtorch SYSTEM INTERFACE
  ${FUSEDNORM_TORCH_DIRECTORY}/include
  ${FUSEDNORM_TORCH_DIRECTORY}/include/torch/csrc/api/include)
target_compile_features(fusednorm_libtorch INTERFACE cxx_std_20)
target_compile_definitions(fusednorm_libtorch INTERFACE
  _GLIBCXX_USE_CXX11_ABI=${FUSEDNORM_TORCH_CXX11_ABI} AT_PER_OPERATOR_HEADERS)
target_link_directories(fusednorm_libtorch INTERFACE ${FUSEDNORM_TORCH_DIRECTORY}/lib)
# No OpenMP: parallel.h runs on the one that libtorch_cpu has.
target_link_libraries(fusednorm_libtorch INTERFACE torch_cpu c10)
