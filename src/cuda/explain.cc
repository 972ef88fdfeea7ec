// A CUDA plan in a sentence, for people.
#include <sstream>

#include "fusednorm/cuda.h"

namespace fusednorm::cuda {
namespace {

const char* description(Kernel kernel, bool forward) {
  switch (kernel) {
    case Kernel::none:
      return "nothing to launch";
    case Kernel::warp:
      return "a warp or part of one a row, the row in registers";
    case Kernel::block:
      return "a block's warps share a row, the row in registers";
    case Kernel::cluster:
      return "a cluster of blocks a row, the row in registers";
    case Kernel::split:
      return forward ? "few long rows split over blocks, two launches"
                     : "long rows in strips, x and dy read twice";
    case Kernel::reread:
      return "a block a row, the row read again through L2";
  }
  return "";
}

template <typename Plan>
void describe(std::ostringstream& out, const Plan& plan, const char* pass, bool forward) {
  const auto& p = plan.problem;
  const Launch& l = plan.launch;
  out << name_of(p.operation) << ' ' << pass << ' ' << p.rows << " x " << p.cols << ' '
      << name_of(p.x_dtype) << " on sm_" << plan.device.compute_capability << " with "
      << plan.device.multiprocessors << " multiprocessors: " << description(l.kernel, forward);
  if (l.kernel == Kernel::none) return;
  out << "; " << l.lanes_per_row << " lanes a row with " << l.vectors_per_thread
      << " vectors each, " << l.blocks << " blocks of " << l.threads_per_block << " threads";
  if (l.kernel == Kernel::cluster) out << " in clusters of " << l.blocks_per_row;
  out << ", " << plan.workspace_bytes << " bytes of workspace";
}

}  // namespace

std::string explain(const ForwardPlan& plan) {
  std::ostringstream out;
  describe(out, plan, "forward", true);
  return out.str();
}

std::string explain(const BackwardPlan& plan) {
  std::ostringstream out;
  describe(out, plan, plan.problem.source == Source::x ? "backward" : "backward from y", false);
  if (plan.partials > 0) out << ", column sums from " << plan.partials << " partials";
  return out.str();
}

}  // namespace fusednorm::cuda
