// SPDX-License-Identifier: Apache-2.0
// Problems under the model of time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "count.h"
#include "time_model.h"

namespace fusednorm::cost {

struct Modelled {
  std::string error;  ///< empty when modelled
  Prediction timed;
  /// With memory that nothing but its latency holds up: LaunchTime::bytes_in_flight is then what
  /// the kernel requests by itself.
  Prediction unlimited;
};

/// Traces what `launch` does on the emulated device, played as `gpu`, and replays that. `launch`
/// returns an error. Without `with_unlimited`, Modelled::unlimited stays empty.
Modelled model(const std::function<std::string()>& launch, const Gpu& gpu, bool with_unlimited,
               Assembler* assembler);
Modelled model(const Problem& problem, const Gpu& gpu, Assembler* assembler);

/// Fills in the bytes that a multiprocessor of the device has in flight on average, in the launch
/// that moves most, and those that Little's law needs on the real device of its architecture.
/// Returns an error.
std::string add_bytes_in_flight(const Problem& problem, const Device& device, Assembler* assembler,
                                Cost* cost);

/// Prints what the model says of each problem on each device of the table; returns the exit code.
int print_model(const std::vector<Problem>& problems, Assembler* assembler);

}  // namespace fusednorm::cost
