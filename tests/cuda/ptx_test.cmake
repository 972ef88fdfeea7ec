# SPDX-License-Identifier: Apache-2.0
# Two things that the PTX in LIBRARY must not have, for the emulated device cannot tell what a GPU makes of them:
# - An addition, subtraction or multiplication of floating-point numbers that does not say how to round: ptxas may fuse
#   such a pair in one copy of a loop and not in another, and bits would depend on it.
# - A generic load or store: a GPU looks up which memory it is, and ptxas may not move it past one to shared memory.
function(count_of pattern result)
  execute_process(COMMAND grep --text --count --extended-regexp "${pattern}" "${LIBRARY}" OUTPUT_VARIABLE count
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${result} "${count}" PARENT_SCOPE)
endfunction()

count_of("^(add|sub|mul|fma)\\.rn\\.f(32|64)" rounded)
count_of("^(add|sub|mul|mad)\\.(ftz\\.)?f(32|64)" open)
set(predicate "(@!?%p[0-9]+ )?")
count_of("^${predicate}(ld|st)\\.(global|shared)\\." known)
count_of("^${predicate}(ld|st)\\.(volatile\\.)?(v[24]\\.)?[bfsu][0-9]" generic)
if(NOT rounded GREATER 1000 OR NOT known GREATER 1000)
  message(FATAL_ERROR
    "only ${rounded} floating-point statements and ${known} accesses in ${LIBRARY}: is its PTX compressed?")
endif()
if(NOT open EQUAL 0)
  message(FATAL_ERROR "${open} statements that ptxas may fuse (grep --text 'add.f32' ${LIBRARY})")
endif()
if(NOT generic EQUAL 0)
  message(FATAL_ERROR "${generic} generic accesses (grep --text -E '^(ld|st).[bfsu]' ${LIBRARY})")
endif()
message(STATUS "${rounded} floating-point statements, each with its rounding; ${known} accesses, each with its memory")
