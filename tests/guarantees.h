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

}  // namespace fusednorm::testing
