# SPDX-License-Identifier: Apache-2.0
# Every C++ example of README.md, docs/*.md and docs/*/*.md that is marked
#
#   <!-- test: compile-and-run -->
#   ```cpp
#   … a whole program, main() included …
#   ```
#
# becomes an executable and a CTest: it must compile against the library and exit with 0.
set(marker "<!-- test: compile-and-run -->\n```cpp\n")
string(LENGTH "${marker}" marker_length)
file(GLOB documents CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/docs/*.md
  ${PROJECT_SOURCE_DIR}/docs/*/*.md)
set(examples 0)
foreach(document ${documents})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${document})
  file(READ ${document} rest)
  get_filename_component(stem ${document} NAME_WE)
  string(TOLOWER ${stem} stem)
  # docs/tutorials/cpp.md: tutorials_cpp
  get_filename_component(folder ${document} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  if(NOT folder STREQUAL "docs" AND NOT stem STREQUAL "readme")
    string(PREPEND stem "${folder}_")
  endif()
  set(number 0)
  string(FIND "${rest}" "${marker}" begin)
  while(NOT begin EQUAL -1)
    math(EXPR begin "${begin} + ${marker_length}")
    string(SUBSTRING "${rest}" ${begin} -1 rest)
    string(FIND "${rest}" "\n```" end)
    if(end EQUAL -1)
      message(FATAL_ERROR "${document}: a marked example is not closed")
    endif()
    string(SUBSTRING "${rest}" 0 ${end} code)
    math(EXPR number "${number} + 1")
    math(EXPR examples "${examples} + 1")
    set(name example_${stem}_${number})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/examples/${name}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "${code}\n" @ONLY)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE fusednorm::fusednorm)
    add_test(NAME core.${name} COMMAND ${name})
    set_tests_properties(core.${name} PROPERTIES LABELS core)
    string(FIND "${rest}" "${marker}" begin)
  endwhile()
  if(stem STREQUAL "readme" AND number EQUAL 0)
    message(SEND_ERROR "README.md: its example must be marked, so that a test compiles it; see tests/README.md")
  endif()
endforeach()
message(STATUS "fusednorm: ${examples} examples of the documentation are compiled and run")
