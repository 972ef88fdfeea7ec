# SPDX-License-Identifier: Apache-2.0
# Configures the consumer with fusednorm's source as a part of it, by add_subdirectory and by FetchContent; builds and runs
# the latter. Nothing of fusednorm's own tests and programs may come along. Not
# optimised: the library is compiled once more for this, and nothing is measured.
file(REMOVE_RECURSE ${WORK})
foreach(by add_subdirectory FetchContent)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/${by} -G ${GENERATOR}
    -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS} -D BY=${by} -D SOURCE=${SOURCE}
    -D CMAKE_BUILD_TYPE=Debug -D FUSEDNORM_FEW_INSTRUCTION_SETS=ON -D FUSEDNORM_COMPILER_CACHE=ON -D BUILD_SHARED_LIBS=${SHARED}
    COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${WORK}/${by}/CMakeCache.txt cache)
  foreach(option FUSEDNORM_BENCH FUSEDNORM_TESTS FUSEDNORM_TORCH FUSEDNORM_CUDA)
    if(NOT cache MATCHES "${option}:BOOL=OFF")
      message(FATAL_ERROR "${option} is on in a consumer that did not ask for it")
    endif()
  endforeach()
endforeach()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/FetchContent COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/FetchContent/consumer COMMAND_ERROR_IS_FATAL ANY)
