# Enables CUDA with the nvcc on PATH, in /usr/local/cuda or in the Python environment in use, and the shared runtime,
# for which the emulated device can stand in.
include_guard(GLOBAL)
if(NOT CMAKE_CUDA_COMPILER)
  find_program(FUSEDNORM_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(FUSEDNORM_NVCC)
    set(CMAKE_CUDA_COMPILER ${FUSEDNORM_NVCC})
  endif()
endif()
# Without a choice, every architecture. The source differs between 75, 80, 90 and 100 only, so PTX is made for those four,
# and machine code for the others from them: two thirds of the compile time are spent before PTX.
set(FUSEDNORM_CUDA_CODE "")
set(FUSEDNORM_CUDA_BUILT_FOR "${CMAKE_CUDA_ARCHITECTURES}")
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(FUSEDNORM_CUDA_BUILT_FOR "75;80;86;89;90;100;120")
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  set(FUSEDNORM_CUDA_CODE
    --generate-code=arch=compute_75,code=[sm_75]
    --generate-code=arch=compute_80,code=[sm_80,sm_86,sm_89]
    --generate-code=arch=compute_90,code=[sm_90]
    --generate-code=arch=compute_100,code=[sm_100,sm_120,compute_100])
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
enable_language(CUDA)
find_package(CUDAToolkit 13 REQUIRED)
