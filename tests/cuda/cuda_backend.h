// SPDX-License-Identifier: Apache-2.0
// The CUDA backend behind the harness's interface: images of the test's memory are copied to the
// device and back.
#pragma once

#include "backend.h"
#include "fusednorm/cuda.h"

namespace fusednorm::testing {

class CudaBackend : public Backend {
 public:
  /// `device` is what the plan is told; its ordinal must exist.
  explicit CudaBackend(cuda::Device device, std::string label)
      : device_(device), label_(std::move(label)) {}

  std::string name() const override { return label_; }
  std::string leaves_out(const Problem& problem) const override;
  Status forward(const ForwardProblem& problem, const ForwardPlaces& places,
                 Memory& memory) override;
  Status backward(const BackwardProblem& problem, const BackwardPlaces& places,
                  Memory& memory) override;

 private:
  template <typename Plan, typename Fill>
  Status run_on_device(const Plan& plan, Memory& memory, const Fill& fill);

  cuda::Device device_;
  std::string label_;
};

}  // namespace fusednorm::testing
