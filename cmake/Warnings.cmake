# SPDX-License-Identifier: Apache-2.0
# The warnings every target of ours is compiled with.
add_library(fusednorm_warnings INTERFACE)
target_compile_options(fusednorm_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${FUSEDNORM_WARNINGS_AS_ERRORS}>>:-Werror>)
