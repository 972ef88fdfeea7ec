# SPDX-License-Identifier: Apache-2.0
# Enables CUDA with the nvcc on PATH, in /usr/local/cuda or in the Python environment in use, and the shared runtime,
# for which the emulated device can stand in. Flags and architectures follow what that nvcc offers.
include_guard(GLOBAL)
include(${CMAKE_CURRENT_LIST_DIR}/Nvcc.cmake)
fusednorm_find_nvcc_compiler()
if(NOT FUSEDNORM_NVCC)
  message(FATAL_ERROR
    "fusednorm: FUSEDNORM_CUDA=ON, but no nvcc was found: put one of CUDA ${FUSEDNORM_CUDA_OLDEST} or newer on PATH, set "
    "CUDA_HOME or CUDACXX, or take NVIDIA's from PyPI (pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl).")
elseif(FUSEDNORM_NVCC_VERSION VERSION_LESS FUSEDNORM_CUDA_OLDEST)
  message(FATAL_ERROR
    "fusednorm: ${FUSEDNORM_NVCC} is of CUDA ${FUSEDNORM_NVCC_VERSION}, but the kernels need ${FUSEDNORM_CUDA_OLDEST} or "
    "newer: name another (CUDACXX=/usr/local/cuda-12.4/bin/nvcc), or build without CUDA (FUSEDNORM_CUDA=OFF).")
endif()
set(CMAKE_CUDA_COMPILER ${FUSEDNORM_NVCC})

# Without a choice, every architecture that nvcc knows; 89 runs 86's machine code, as it does in PyTorch's wheels. The
# source differs between 75, 80, 90 and 100 only, so PTX is made for those four, and machine code for the others from
# them: two thirds of the compile time are spent before PTX. The newest PTX stays in the library for the GPUs to come.
set(FUSEDNORM_CUDA_CODE "")
set(FUSEDNORM_CUDA_BUILT_FOR "${CMAKE_CUDA_ARCHITECTURES}")
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  foreach(group 75 80,86 90 100,120)  # the first of each makes the PTX
    string(REPLACE "," ";" group ${group})
    list(GET group 0 virtual)
    set(code "")
    foreach(real ${group})
      if(sm_${real} IN_LIST FUSEDNORM_NVCC_OFFERS)
        list(APPEND code sm_${real})
        list(APPEND FUSEDNORM_CUDA_BUILT_FOR ${real})
      endif()
    endforeach()
    if(code)
      list(JOIN code "," code)
      list(APPEND FUSEDNORM_CUDA_CODE "--generate-code=arch=compute_${virtual},code=[${code}]")
      set(newest ${virtual})
    endif()
  endforeach()
  list(APPEND FUSEDNORM_CUDA_CODE "--generate-code=arch=compute_${newest},code=[compute_${newest}]")
endif()

# The emulated device reads PTX uncompressed, and source lines from it; without them the library is a tenth of the size.
set(FUSEDNORM_CUDA_FORM "")
if(FUSEDNORM_EMULATOR)
  set(FUSEDNORM_CUDA_FORM --no-compress -lineinfo)
elseif(FUSEDNORM_NVCC_COMPRESS_MODE)
  set(FUSEDNORM_CUDA_FORM --compress-mode=size)
endif()

set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
enable_language(CUDA)
find_package(CUDAToolkit ${FUSEDNORM_CUDA_OLDEST} REQUIRED)
