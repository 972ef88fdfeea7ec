// SPDX-License-Identifier: Apache-2.0
// Any problem for any device is planned or refused with a sentence, and planning is a function:
// twice the same. UndefinedBehaviorSanitizer watches the arithmetic of sizes.
#include "expect.h"
#include "fusednorm/fusednorm.h"
#include "problem_bytes.h"

namespace {

using namespace fusednorm;

template <typename Problem>
void check(const Problem& problem, const cpu::Device& device) {
  const auto plan = cpu::plan(problem, device);
  if (!plan) {
    fuzz::expect(!plan.status().message().empty(), "refused without a reason");
    return;
  }
  fuzz::expect(!cpu::explain(*plan).empty(), "a plan that explains nothing");
  fuzz::expect(problem.rows >= 0 && problem.cols >= 0, "planned a negative size");
  // Column sums and statistics: no problem needs more than its data many times over.
  fuzz::expect(!fuzz::addressable(problem) || plan->workspace_bytes < std::size_t{1} << 62,
               "workspace_bytes wrapped around");
  const auto again = cpu::plan(problem, device);
  fuzz::expect(again && again->workspace_bytes == plan->workspace_bytes, "planned twice, differs");
  // Without arrays, run must refuse (or have nothing to do) before it reads anything.
  if (plan->workspace_bytes > 0) {
    fuzz::expect(!cpu::run(*plan, {}).ok(), "ran without a workspace");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes bytes(data, size);
  cpu::Device device;
  device.threads = bytes.flag() ? 1 + bytes.any<std::uint8_t>() % 64 : bytes.any<int>();
  device.cache_shared = bytes.flag() ? 1 << 24 : bytes.size();
  const auto sets = cpu::instruction_sets();
  if (bytes.flag()) device.instruction_set = sets[bytes.any<std::uint8_t>() % sets.size()];
  if (bytes.any<std::uint8_t>() == 255) device.instruction_set = {bytes.any<std::int64_t>()};
  if (bytes.flag()) {
    check(fuzz::forward_problem(bytes), device);
  } else {
    check(fuzz::backward_problem(bytes), device);
  }
  return 0;
}
