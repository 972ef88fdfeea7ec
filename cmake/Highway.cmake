# SPDX-License-Identifier: Apache-2.0
# Google Highway: the system's, or a pinned release where the system has none.
find_package(hwy 1.0.3 QUIET CONFIG)
if(NOT hwy_FOUND)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(HWY QUIET IMPORTED_TARGET libhwy>=1.0.3)
  endif()
  if(TARGET PkgConfig::HWY)
    add_library(hwy::hwy ALIAS PkgConfig::HWY)
  endif()
endif()
if(NOT TARGET hwy::hwy)
  message(STATUS "fusednorm: no Highway on this system, fetching release 1.2.0")
  include(FetchContent)
  set(HWY_ENABLE_TESTS OFF CACHE INTERNAL "")
  set(HWY_ENABLE_EXAMPLES OFF CACHE INTERNAL "")
  set(HWY_ENABLE_CONTRIB OFF CACHE INTERNAL "")
  set(HWY_ENABLE_INSTALL ON CACHE INTERNAL "")  # a static fusednorm needs it at its side
  FetchContent_Declare(highway
    GIT_REPOSITORY https://github.com/google/highway.git
    GIT_TAG 1.2.0
    GIT_SHALLOW ON)
  FetchContent_MakeAvailable(highway)
  if(NOT TARGET hwy::hwy)
    add_library(hwy::hwy ALIAS hwy)
  endif()
endif()
