// SPDX-License-Identifier: Apache-2.0
// The backward kernels of f16 x, compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dispatch/backward_f16.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#define FUSEDNORM_X Float16
#define FUSEDNORM_BACKWARD backward_f16
#include "cpu/dispatch/backward_table.h"
