// SPDX-License-Identifier: Apache-2.0
// Everything of fusednorm that needs no CUDA: problems, status and the CPU backend.
#pragma once

#include "fusednorm/cpu.h"
#include "fusednorm/dtype.h"
#include "fusednorm/problem.h"
#include "fusednorm/status.h"
#include "fusednorm/version.h"
