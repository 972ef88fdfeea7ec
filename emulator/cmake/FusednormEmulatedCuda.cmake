# SPDX-License-Identifier: Apache-2.0
# Finds nvcc and compiles CUDA programs that run on the emulated device, or unchanged on a real one.
#
#   fusednorm_emulated_cuda_program(name
#     SOURCES a.cu b.cpp ...          .cu files go through nvcc, the rest through the host compiler
#     ARCHITECTURES 75 90 ...         PTX embedded for each (default 90); "90a" and "100f" work too
#     INCLUDES dir ...  DEFINITIONS X=1 ...  LIBRARIES target ...  NVCC_OPTIONS -O2 ...
#     LIBRARY)                        a static library instead of a program
#
# Without LIBRARY the program links against the emulator's libcudart and finds it by its run path; with
# LD_LIBRARY_PATH naming a real libcudart it takes that one instead.
#
# FUSEDNORM_NVCC, FUSEDNORM_CUDA_INCLUDE: where nvcc and the headers of the runtime are. Looked for on PATH, in
# /usr/local/cuda and among the packages nvidia-cuda-nvcc, nvidia-cuda-runtime, nvidia-cuda-cccl of the Python in use.
include_guard(GLOBAL)

function(fusednorm_find_nvcc)
  if(FUSEDNORM_NVCC AND FUSEDNORM_CUDA_INCLUDE)
    return()
  endif()
  set(python_roots)
  find_program(FUSEDNORM_PYTHON NAMES python3 python)
  if(FUSEDNORM_PYTHON)
    execute_process(COMMAND "${FUSEDNORM_PYTHON}" -c
      "import site, sysconfig; print(';'.join({sysconfig.get_path('purelib'), *site.getsitepackages()}))"
      OUTPUT_VARIABLE site_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    foreach(directory IN LISTS site_packages)
      file(GLOB found "${directory}/nvidia/cu1*" "${directory}/nvidia/cuda_nvcc" "${directory}/nvidia/cuda_runtime" "${directory}/nvidia/cuda_cccl")
      list(APPEND python_roots ${found})
    endforeach()
  endif()
  find_program(FUSEDNORM_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDACXX PATHS /usr/local/cuda ${python_roots} PATH_SUFFIXES bin
    DOC "The CUDA compiler")
  if(NOT FUSEDNORM_NVCC)
    message(FATAL_ERROR "nvcc was not found on PATH, in /usr/local/cuda or among Python packages. Install the CUDA "
      "toolkit, or: pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl (in the Python environment in "
      "use), or set -DFUSEDNORM_NVCC=/path/to/nvcc.")
  endif()
  get_filename_component(nvcc_real "${FUSEDNORM_NVCC}" REALPATH)
  get_filename_component(root "${nvcc_real}/../.." ABSOLUTE)
  find_path(FUSEDNORM_CUDA_INCLUDE cuda_runtime_api.h PATHS "${root}" ${python_roots} /usr/local/cuda
    PATH_SUFFIXES include targets/x86_64-linux/include NO_DEFAULT_PATH DOC "Headers of the CUDA runtime")
  if(NOT FUSEDNORM_CUDA_INCLUDE)
    message(FATAL_ERROR "cuda_runtime_api.h was not found near ${FUSEDNORM_NVCC}. pip install nvidia-cuda-runtime, or "
      "set -DFUSEDNORM_CUDA_INCLUDE=/path/to/include.")
  endif()
  # Packages from PyPI lay the headers out apart: all of them go on the include path.
  set(extra)
  foreach(directory IN LISTS python_roots)
    if(IS_DIRECTORY "${directory}/include")
      list(APPEND extra "${directory}/include")
    endif()
    if(IS_DIRECTORY "${directory}/include/cccl")
      list(APPEND extra "${directory}/include/cccl")
    endif()
  endforeach()
  set(FUSEDNORM_CUDA_EXTRA_INCLUDES "${extra}" CACHE INTERNAL "")
  message(STATUS "nvcc: ${FUSEDNORM_NVCC}, headers: ${FUSEDNORM_CUDA_INCLUDE}")
endfunction()

fusednorm_find_nvcc()

function(fusednorm_emulated_cuda_program name)
  cmake_parse_arguments(arg "LIBRARY" "" "SOURCES;ARCHITECTURES;INCLUDES;DEFINITIONS;LIBRARIES;NVCC_OPTIONS" ${ARGN})
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "fusednorm_emulated_cuda_program(${name}): no SOURCES")
  endif()
  if(NOT arg_ARCHITECTURES)
    set(arg_ARCHITECTURES 90)
  endif()
  set(flags -std=c++17 -lineinfo --no-compress -Wno-deprecated-gpu-targets -Xcompiler=-fPIC)
  foreach(architecture IN LISTS arg_ARCHITECTURES)
    list(APPEND flags -gencode arch=compute_${architecture},code=compute_${architecture})
  endforeach()
  foreach(directory IN LISTS arg_INCLUDES)
    list(APPEND flags "-I${directory}")
  endforeach()
  foreach(directory IN LISTS FUSEDNORM_CUDA_EXTRA_INCLUDES)
    list(APPEND flags "-isystem=${directory}")
  endforeach()
  foreach(definition IN LISTS arg_DEFINITIONS)
    list(APPEND flags "-D${definition}")
  endforeach()
  set(objects)
  foreach(source IN LISTS arg_SOURCES)
    if(NOT source MATCHES "\\.cu$")
      list(APPEND objects "${source}")
      continue()
    endif()
    get_filename_component(absolute "${source}" ABSOLUTE)
    get_filename_component(base "${source}" NAME_WE)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.${base}.o")
    add_custom_command(OUTPUT "${object}"
      COMMAND "${FUSEDNORM_NVCC}" ${flags} ${arg_NVCC_OPTIONS} "-ccbin=${CMAKE_CXX_COMPILER}" -MD -MF "${object}.d" -c "${absolute}" -o "${object}"
      DEPENDS "${absolute}" DEPFILE "${object}.d" COMMAND_EXPAND_LISTS VERBATIM
      COMMENT "nvcc ${base}.cu for ${name}")
    set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    list(APPEND objects "${object}")
  endforeach()
  if(arg_LIBRARY)
    add_library(${name} STATIC ${objects})
  else()
    add_executable(${name} ${objects})
  endif()
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_compile_features(${name} PRIVATE cxx_std_17)
  target_include_directories(${name} PRIVATE ${arg_INCLUDES})
  target_include_directories(${name} SYSTEM PRIVATE "${FUSEDNORM_CUDA_INCLUDE}")
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  target_link_libraries(${name} PUBLIC ${arg_LIBRARIES} fusednorm_emulator)
  if(NOT arg_LIBRARY)
    # DT_RUNPATH, which LD_LIBRARY_PATH overrides.
    target_link_options(${name} PRIVATE LINKER:--enable-new-dtags)
  endif()
endfunction()
