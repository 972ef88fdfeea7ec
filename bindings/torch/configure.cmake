# SPDX-License-Identifier: Apache-2.0
# Settles what `pip install .` builds, before the project's own options are read: pyproject.toml
# hands this file to CMake as CMAKE_PROJECT_fusednorm_INCLUDE.
#
#   FUSEDNORM_CUDA=AUTO (default)  with CUDA where nvcc, a torch with CUDA and a GPU (or
#                                  FUSEDNORM_CUDA_ARCHITECTURES) are there; without it otherwise
#   FUSEDNORM_CUDA=ON | OFF        as it says; ON fails where nvcc is missing
#   FUSEDNORM_CUDA_ARCHITECTURES   "80;90" say; default: the GPUs of this machine, else all that
#                                  the library knows
include(${CMAKE_CURRENT_LIST_DIR}/Torch.cmake)

set(architectures "${FUSEDNORM_CUDA_ARCHITECTURES}")
string(REPLACE "," ";" architectures "${architectures}")
string(TOUPPER "${FUSEDNORM_CUDA}" wish)
if(wish STREQUAL "" OR NOT DEFINED FUSEDNORM_CUDA)
  set(wish AUTO)
endif()

if(NOT wish STREQUAL "OFF" AND NOT wish STREQUAL "0")
  if(FUSEDNORM_TORCH_CUDA STREQUAL "None")
    set(missing "torch ${FUSEDNORM_TORCH_VERSION} is a build without CUDA")
  else()
    include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/Nvcc.cmake)
    fusednorm_find_nvcc_compiler()
    if(NOT FUSEDNORM_NVCC)
      set(missing "no nvcc was found (put it on PATH, or set CUDA_HOME or CUDACXX)")
    elseif(NOT FUSEDNORM_NVCC_VERSION)
      set(missing "${FUSEDNORM_NVCC} --version names no release of CUDA (name an nvcc that runs with CUDACXX)")
    endif()
  endif()
  if(NOT missing AND NOT architectures)
    execute_process(
      COMMAND ${Python_EXECUTABLE} -I -c
        "import torch; n = torch.cuda.device_count(); print(';'.join(sorted({'%d%d' % torch.cuda.get_device_capability(i) for i in range(n)})))"
      OUTPUT_VARIABLE architectures OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    # A GPU that is newer than nvcc runs the PTX of the newest that nvcc knows.
    list(TRANSFORM FUSEDNORM_NVCC_OFFERS REPLACE sm_ "" OUTPUT_VARIABLE offered)
    foreach(gpu ${architectures})
      set(best ${gpu})
      if(NOT gpu IN_LIST offered)
        list(GET offered 0 best)
        foreach(candidate ${offered})
          if(candidate LESS gpu AND candidate GREATER best)
            set(best ${candidate})
          endif()
        endforeach()
        message(STATUS "fusednorm: nvcc ${FUSEDNORM_NVCC_VERSION} does not know sm_${gpu}: building sm_${best} and its PTX")
      endif()
      list(APPEND buildable ${best})
    endforeach()
    if(architectures)
      list(REMOVE_DUPLICATES buildable)
      set(architectures ${buildable})
    endif()
    if(NOT architectures AND wish STREQUAL "AUTO")
      set(missing "this machine has no GPU (name architectures to build for others: FUSEDNORM_CUDA_ARCHITECTURES=90)")
    endif()
  endif()
  if(NOT missing)
    set(with_cuda ON)
  elseif(NOT wish STREQUAL "AUTO")
    message(FATAL_ERROR "fusednorm: FUSEDNORM_CUDA=${FUSEDNORM_CUDA}, but ${missing}.")
  endif()
endif()

if(with_cuda)
  fusednorm_check_cuda_major(${FUSEDNORM_NVCC} ${FUSEDNORM_NVCC_VERSION})
  # None named: cmake/Cuda.cmake takes every one.
  set(told "sm ${architectures}")
  if(NOT architectures)
    set(told "every architecture")
  endif()
  message(STATUS "fusednorm: building the CPU and CUDA operators for ${told}, torch ${FUSEDNORM_TORCH_VERSION}")
  set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "" FORCE)
  set(FUSEDNORM_CUDA ON CACHE BOOL "" FORCE)
else()
  if(missing)
    message(WARNING "fusednorm: building the CPU operators only: ${missing}.")
  else()
    message(STATUS "fusednorm: building the CPU operators only, torch ${FUSEDNORM_TORCH_VERSION}")
  endif()
  set(FUSEDNORM_CUDA OFF CACHE BOOL "" FORCE)
endif()
