// SPDX-License-Identifier: Apache-2.0
// Every file of the operators that does not need CUDA's headers, as one for the compiler: most of
// its work is to read ATen's headers, which it then does once, and writes no precompiled header.
#include "autograd_backward.cc"
#include "autograd_forward.cc"
#include "checks.cc"
#include "cpu.cc"
#include "derivatives.cc"
#include "meta.cc"
#include "register.cc"
