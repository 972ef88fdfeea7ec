# SPDX-License-Identifier: Apache-2.0
# Installs the build tree into a fresh prefix, then configures, builds and runs consumers of each
# component against that prefix alone. EMULATOR and TORCH are empty where the build has no such
# component.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed (${code}): ${command}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/project ${WORK}/cuda)
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
set(settings -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS}
  -D CMAKE_PREFIX_PATH=${WORK}/prefix)
set(with_emulator "")
if(EMULATOR)
  list(APPEND settings -D CUDAToolkit_ROOT=${TOOLKIT})
  set(with_emulator ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${EMULATOR} FUSEDNORM_EMULATOR_MULTIPROCESSORS=4)
endif()
set(components "")
if(TORCH)
  set(components -D COMPONENTS=torch -D TORCH=${TORCH})
endif()
step(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/project ${settings} ${components})
step(${CMAKE_COMMAND} --build ${WORK}/project)
step(${WORK}/project/consumer)
if(TORCH)
  # On the CPU, with the CUDA runtime that libtorch brings: on the emulated one libtorch would ask for a driver.
  step(${WORK}/project/torch_consumer)
endif()
if(EMULATOR)
  step(${CMAKE_COMMAND} -S ${EXAMPLES}/cuda_graph -B ${WORK}/cuda ${settings})
  step(${CMAKE_COMMAND} --build ${WORK}/cuda)
  step(${with_emulator} ${WORK}/cuda/example_cuda_graph)
endif()

# What cannot be had is said in a sentence of ours.
function(refused_with sentence)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/refused -G ${GENERATOR}
    -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_PREFIX_PATH=${WORK}/prefix ${ARGN}
    RESULT_VARIABLE code OUTPUT_VARIABLE told ERROR_VARIABLE told)
  file(REMOVE_RECURSE ${WORK}/refused)
  string(REGEX REPLACE "[ \n]+" " " told "${told}")
  string(FIND "${told}" "${sentence}" at)
  if(code EQUAL 0 OR at EQUAL -1)
    message(FATAL_ERROR "expected a refusal with '${sentence}', got (${code}): ${told}")
  endif()
endfunction()
refused_with("call enable_language(CXX) before find_package(fusednorm)" -D LANGUAGES=C)
refused_with("fusednorm has the components cpu, cuda and torch, not tpu" -D COMPONENTS=tpu)
if(NOT TORCH)
  refused_with("this fusednorm was built without the PyTorch operators" -D COMPONENTS=torch)
endif()
if(NOT EMULATOR)
  refused_with("this fusednorm was built without CUDA" -D COMPONENTS=cuda)
endif()

# Without CMake: what pkg-config says is all that a compiler needs.
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  file(GLOB_RECURSE description ${WORK}/prefix/fusednorm.pc)
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs ${description}
    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  separate_arguments(own UNIX_COMMAND "${FLAGS}")
  get_filename_component(libraries ${description}/../.. ABSOLUTE)
  step(${COMPILER} ${own} ${CONSUMER}/main.cc -o ${WORK}/project/by_pkg_config ${flags}
    -Wl,-rpath,${libraries})
  step(${WORK}/project/by_pkg_config)
else()
  message(STATUS "no pkg-config here: its file was not tried (apt-get install pkg-config)")
endif()

# Nothing of ours may leak into an installed header.
file(GLOB_RECURSE headers ${WORK}/prefix/*.h)
if(NOT headers)
  message(FATAL_ERROR "the install tree holds no headers")
endif()
foreach(header ${headers})
  file(READ ${header} text)
  if(text MATCHES "#include [<\"](hwy|torch|ATen|cuda)")
    message(FATAL_ERROR "${header} includes a header that a consumer does not have")
  endif()
endforeach()
