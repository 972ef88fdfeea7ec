// SPDX-License-Identifier: Apache-2.0
// A plan in a sentence, for people.
#include <sstream>

#include "fusednorm/cpu.h"

namespace fusednorm::cpu {
namespace {

template <typename Plan>
void describe(std::ostringstream& out, const Plan& plan, const char* pass) {
  const auto& p = plan.problem;
  out << name_of(p.operation) << ' ' << pass << ' ' << p.rows << " x " << p.cols << ' '
      << name_of(p.x_dtype) << " (parameters " << name_of(p.param_dtype) << ", y "
      << name_of(p.y_dtype) << ") on " << plan.device.instruction_set.name() << ": ";
  switch (plan.schedule) {
    case Schedule::calling_thread:
      out << "in the calling thread";
      break;
    case Schedule::rows:
      out << "whole rows in " << plan.tasks << " tasks";
      break;
    case Schedule::segments:
      out << "threads share each row in " << plan.tasks << " tasks";
      break;
  }
  out << " for " << plan.device.threads << (plan.device.threads == 1 ? " thread" : " threads")
      << ", " << (plan.streaming_stores ? "streaming" : "cached") << " stores, "
      << plan.workspace_bytes << " bytes of workspace";
}

}  // namespace

std::string explain(const ForwardPlan& plan) {
  std::ostringstream out;
  describe(out, plan, "forward");
  return out.str();
}

std::string explain(const BackwardPlan& plan) {
  std::ostringstream out;
  describe(out, plan, plan.problem.source == Source::x ? "backward" : "backward from y");
  if (plan.problem.want_dgamma || plan.problem.want_dbeta) {
    out << ", column sums of " << plan.row_blocks
        << (plan.row_blocks == 1 ? " block of rows" : " blocks of rows");
  }
  return out.str();
}

}  // namespace fusednorm::cpu
