# SPDX-License-Identifier: Apache-2.0
# ccache, where there is one and no launcher was chosen: a second build of the same sources, in another folder or by pip,
# then takes seconds. FUSEDNORM_COMPILER_CACHE=OFF builds without.
include_guard(GLOBAL)
option(FUSEDNORM_COMPILER_CACHE "Compile through ccache where it is installed" ${PROJECT_IS_TOP_LEVEL})
if(NOT FUSEDNORM_COMPILER_CACHE OR DEFINED CMAKE_CXX_COMPILER_LAUNCHER OR DEFINED ENV{CMAKE_CXX_COMPILER_LAUNCHER})
  return()
endif()
find_program(FUSEDNORM_CCACHE ccache)
if(NOT FUSEDNORM_CCACHE)
  return()
endif()
# Clones share entries: paths below the source folder are made relative.
# -Werror changes no object: the package and the tests share theirs. (A file that warned in a build without it warns again
# in one with it, and passes there; in CI the tests are compiled first.)
set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
  CCACHE_SLOPPINESS=time_macros CCACHE_IGNOREOPTIONS=-Werror ${FUSEDNORM_CCACHE})
set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
