// SPDX-License-Identifier: Apache-2.0
// The guarantees as procedures: each runs a problem in two ways that must give the same bits, and
// tells where they do not.
#pragma once

#include <string>

#include "harness.h"

namespace fusednorm::testing {

/// run_to_run and thread_invariant: all outputs of `problem`, from two runs.
std::string same_bits(const Problem& problem, Backend& first, Backend& second);

/// batch_invariant: each row's y, mean, rstd and dx, among all rows on `among`, against
/// `batch` rows at a time on `apart`. With `poisoned_company`, the row keeps its neighbours but
/// they are NaN instead.
std::string batch_invariant(const Problem& problem, Backend& among, Backend& apart,
                            std::int64_t batch, bool poisoned_company = false);

/// fused = unfused: a problem with a residual, against the same backend's plain norm and an
/// addition by the test. Forward: y, sum, mean and rstd have the bits of a norm of the stored sum;
/// beside an f32 residual that norm's y is f32 and is rounded by the test (which is the same only
/// without beta where y is rounded more than once). Backward: dx without ds has the bits of the
/// plain one; with ds, in f32 and f64, those of the plain one + ds. A 16-bit dx + ds is rounded
/// once instead of twice, which no unfused order gives. A sentence where a problem has no such
/// counterpart.
std::string fused_as_unfused(const Problem& problem, Backend& backend);

}  // namespace fusednorm::testing
