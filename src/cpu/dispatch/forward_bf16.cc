// SPDX-License-Identifier: Apache-2.0
// The forward kernels of bf16 x, compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dispatch/forward_bf16.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#define FUSEDNORM_X BFloat16
#define FUSEDNORM_FORWARD forward_bf16
#include "cpu/dispatch/forward_table.h"
