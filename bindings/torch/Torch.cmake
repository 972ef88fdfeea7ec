# fusednorm_libtorch: the headers and libraries of the PyTorch that Python_EXECUTABLE imports.
#
# find_package(Torch) would add flags for every target and architectures of its own; this target
# names only what an operator library needs. Python is asked with -I, which looks past pip's build
# isolation to the torch that is installed next to it: the one that will load what is built here.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)

execute_process(
  COMMAND ${Python_EXECUTABLE} -I -c
    "import torch, os; print(os.path.dirname(torch.__file__), torch.__version__, torch.version.cuda, int(torch.compiled_with_cxx11_abi()), sep=';')"
  OUTPUT_VARIABLE FUSEDNORM_TORCH_FACTS OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_VARIABLE FUSEDNORM_TORCH_ERROR RESULT_VARIABLE FUSEDNORM_TORCH_RESULT)
if(NOT FUSEDNORM_TORCH_RESULT EQUAL 0)
  message(FATAL_ERROR
    "fusednorm: ${Python_EXECUTABLE} cannot import torch.\n"
    "Install PyTorch first, then build against it: pip install --no-build-isolation .\n"
    "${FUSEDNORM_TORCH_ERROR}")
endif()
list(GET FUSEDNORM_TORCH_FACTS 0 FUSEDNORM_TORCH_DIRECTORY)
list(GET FUSEDNORM_TORCH_FACTS 1 FUSEDNORM_TORCH_VERSION)
list(GET FUSEDNORM_TORCH_FACTS 2 FUSEDNORM_TORCH_CUDA)
list(GET FUSEDNORM_TORCH_FACTS 3 FUSEDNORM_TORCH_CXX11_ABI)
if(FUSEDNORM_TORCH_VERSION VERSION_LESS 2.15)
  message(FATAL_ERROR
    "fusednorm: found torch ${FUSEDNORM_TORCH_VERSION}; the operators need 2.15 or newer.")
endif()

# PyTorch hands out CUDA structures (cudaDeviceProp) whose layout differs between majors.
if(FUSEDNORM_CUDA AND CMAKE_CUDA_COMPILER_VERSION AND NOT FUSEDNORM_TORCH_CUDA STREQUAL "None")
  string(REGEX MATCH "^[0-9]+" torch_major "${FUSEDNORM_TORCH_CUDA}")
  string(REGEX MATCH "^[0-9]+" nvcc_major "${CMAKE_CUDA_COMPILER_VERSION}")
  if(NOT torch_major EQUAL nvcc_major)
    message(FATAL_ERROR
      "fusednorm: torch ${FUSEDNORM_TORCH_VERSION} was built with CUDA ${FUSEDNORM_TORCH_CUDA}, but nvcc is "
      "${CMAKE_CUDA_COMPILER_VERSION}. Put an nvcc of CUDA ${torch_major} on PATH, or build without CUDA: "
      "FUSEDNORM_CUDA=OFF pip install --no-build-isolation .")
  endif()
endif()

add_library(fusednorm_libtorch INTERFACE)
target_include_directories(fusednorm_libtorch SYSTEM INTERFACE
  ${FUSEDNORM_TORCH_DIRECTORY}/include
  ${FUSEDNORM_TORCH_DIRECTORY}/include/torch/csrc/api/include)
target_compile_features(fusednorm_libtorch INTERFACE cxx_std_20)
target_compile_definitions(fusednorm_libtorch INTERFACE
  _GLIBCXX_USE_CXX11_ABI=${FUSEDNORM_TORCH_CXX11_ABI} AT_PER_OPERATOR_HEADERS)
target_link_directories(fusednorm_libtorch INTERFACE ${FUSEDNORM_TORCH_DIRECTORY}/lib)
target_link_libraries(fusednorm_libtorch INTERFACE torch_cpu c10)

# at::parallel_for lives in a header and is serial without -fopenmp. The library that it runs on is
# the one that PyTorch has loaded, by its name libgomp.so.1.
find_package(OpenMP REQUIRED COMPONENTS CXX)
target_link_libraries(fusednorm_libtorch INTERFACE OpenMP::OpenMP_CXX)
