#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build_shim.sh SOURCE_TREE OUT.so: a build of that tree, every symbol of it hidden, behind shim.h.
set -e
here=$(cd "$(dirname "$0")" && pwd)
build="$2.build"
cmake -S "$1" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON >/dev/null
cmake --build "$build" --target fusednorm
c++ -std=c++17 -O2 -fPIC -shared -I "$1/include" "$here/shim.cc" -o "$2" \
  "$build/src/libfusednorm.a" -fopenmp -lhwy -Wl,--version-script="$here/shim.map" -Wl,-z,defs
