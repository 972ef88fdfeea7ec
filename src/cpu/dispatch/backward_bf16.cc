// SPDX-License-Identifier: Apache-2.0
// The backward kernels of bf16 x, compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dispatch/backward_bf16.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#define FUSEDNORM_X BFloat16
#define FUSEDNORM_BACKWARD backward_bf16
#include "cpu/dispatch/backward_table.h"
