// SPDX-License-Identifier: Apache-2.0
// The forward kernels of f16 x, compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dispatch/forward_f16.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#define FUSEDNORM_X Float16
#define FUSEDNORM_FORWARD forward_f16
#include "cpu/dispatch/forward_table.h"
