# Fails if the PTX in LIBRARY adds, subtracts or multiplies floating-point numbers without saying how to round: ptxas
# may fuse such a pair in one copy of a loop and not in another, and bits would depend on it.
file(STRINGS "${LIBRARY}" every REGEX "(add|sub|mul|mad|fma)(\\.rn)?\\.f(32|64)")
list(LENGTH every count)
if(count LESS 1000)
  message(FATAL_ERROR "only ${count} floating-point statements in ${LIBRARY}: is its PTX compressed?")
endif()
file(STRINGS "${LIBRARY}" open REGEX "(add|sub|mul|mad)\\.(ftz\\.)?f(32|64)")
list(LENGTH open bad)
if(bad GREATER 0)
  list(GET open 0 first)
  message(FATAL_ERROR "${bad} statements that ptxas may fuse, the first: ${first}")
endif()
message(STATUS "${count} floating-point statements, each with its rounding")
