# Installs the build tree into a fresh prefix, then configures, builds and runs the consumer
# against that prefix alone.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed (${code}): ${command}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/project)
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
step(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/project -G ${GENERATOR}
  -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS}
  -D CMAKE_PREFIX_PATH=${WORK}/prefix)
step(${CMAKE_COMMAND} --build ${WORK}/project)
step(${WORK}/project/consumer)

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
