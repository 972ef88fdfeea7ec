// SPDX-License-Identifier: Apache-2.0
// The forward kernels of f32 x, compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dispatch/forward_f32.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#define FUSEDNORM_X float
#define FUSEDNORM_FORWARD forward_f32
#include "cpu/dispatch/forward_table.h"
