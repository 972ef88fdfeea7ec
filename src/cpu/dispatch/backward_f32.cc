// SPDX-License-Identifier: Apache-2.0
// The backward kernels of f32 x, compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dispatch/backward_f32.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#define FUSEDNORM_X float
#define FUSEDNORM_BACKWARD backward_f32
#include "cpu/dispatch/backward_table.h"
