// SPDX-License-Identifier: Apache-2.0
// A CUDA plan in a sentence, for people.
#include <sstream>

#include "fusednorm/cuda.h"

namespace fusednorm::cuda {
namespace {

const char* description(Kernel kernel) {
  switch (kernel) {
    case Kernel::none:
      return "nothing to launch";
    case Kernel::narrow:
      return "narrow: a warp or part of one a row, the row in registers";
    case Kernel::wide:
      return "wide: a block's warps share a row, the row in registers";
    case Kernel::cluster:
      return "cluster: a cluster of blocks a row, the row in registers";
    case Kernel::reread:
      return "reread: a block a row, the row read again through L2";
    case Kernel::split:
      return "split: few long rows over many blocks, two launches";
    case Kernel::strips:
      return "strips: long rows in strips of columns, x and dy read twice";
    case Kernel::copy:
      return "copy: without dy the gradient is ds";
    case Kernel::columns:
      return "columns: partial sums to dgamma and dbeta";
  }
  return "";
}

template <typename Plan>
void describe(std::ostringstream& out, const Plan& plan, const char* pass) {
  const auto& p = plan.problem;
  const Launch& l = plan.launch;
  if (p.has_residual) out << "add_";
  out << name_of(p.operation) << ' ' << pass << ' ' << p.rows << " x " << p.cols << ' '
      << name_of(p.x_dtype) << " on sm_" << plan.device.compute_capability << " with "
      << plan.device.multiprocessors << " multiprocessors: " << description(l.kernel);
  if (l.kernel == Kernel::none) return;
  out << "; " << l.lanes_per_row << " lanes a row with " << l.vectors_per_thread
      << " vectors each, " << l.blocks << " blocks of " << l.threads_per_block << " threads";
  if (l.kernel == Kernel::cluster) out << " in clusters of " << l.blocks_per_row;
  out << ", " << plan.workspace_bytes << " bytes of workspace";
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
  if (plan.partials > 0) out << ", column sums from " << plan.partials << " partials";
  if (plan.problem.param_groups > 1)
    out << " for each of " << plan.problem.param_groups << " groups";
  return out.str();
}

}  // namespace fusednorm::cuda
