# SPDX-License-Identifier: Apache-2.0
# Fails if the PTX in LIBRARY adds, subtracts or multiplies floating-point numbers without saying how to round: ptxas
# may fuse such a pair in one copy of a loop and not in another, and bits would depend on it.
function(count_of pattern result)
  execute_process(COMMAND grep --text --count --extended-regexp "${pattern}" "${LIBRARY}" OUTPUT_VARIABLE count
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${result} "${count}" PARENT_SCOPE)
endfunction()

count_of("^(add|sub|mul|fma)\\.rn\\.f(32|64)" rounded)
count_of("^(add|sub|mul|mad)\\.(ftz\\.)?f(32|64)" open)
if(NOT rounded GREATER 1000)
  message(FATAL_ERROR "only ${rounded} floating-point statements in ${LIBRARY}: is its PTX compressed?")
endif()
if(NOT open EQUAL 0)
  message(FATAL_ERROR "${open} statements that ptxas may fuse (grep --text 'add.f32' ${LIBRARY})")
endif()
message(STATUS "${rounded} floating-point statements, each with its rounding")
