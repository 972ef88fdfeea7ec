// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: describe a device once, plan a problem (a pure function), run the plan on a
// stream.
//
//   auto device = fusednorm::cuda::query(0);
//   auto plan = fusednorm::cuda::plan(problem, *device);
//   ... allocate plan->workspace_bytes on that device ...
//   auto status = fusednorm::cuda::run(*plan, {x, gamma, beta, y}, {workspace, bytes}, stream);
//
// run() only launches: it allocates nothing, synchronises nothing, reads nothing back and keeps
// nothing, so it can be captured in a CUDA graph and called from any number of threads and streams.
// The device of the plan must be the calling thread's current device. A workspace belongs to one
// run at a time; it must be memory that cudaMalloc or cudaMallocManaged gave (memory of malloc is
// refused also where a device could read it). Guarantees: run_to_run and batch_invariant, as
// docs/guarantees.md defines them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fusednorm/problem.h"
#include "fusednorm/status.h"

struct CUstream_st;  // cudaStream_t without CUDA's headers

namespace fusednorm::cuda {

using Stream = CUstream_st*;

/// What a plan needs to know of a device. Query it once, or write it by hand.
struct Device {
  int ordinal = 0;
  int compute_capability = 90;  ///< major * 10 + minor
  int multiprocessors = 132;
  std::int64_t shared_bytes_per_block = 227 << 10;  ///< with opt-in
  std::int64_t l2_bytes = 50 << 20;
  /// Whether kernels with clusters exist in the code that the device runs: from 9.0 on, unless the
  /// driver compiled PTX of an older architecture for it.
  bool clusters = true;
  /// Clusters of 2, 4, 8 and 16 blocks of 256 threads that the device runs at once, one block a
  /// multiprocessor: fewer than multiprocessors suggest, where GPCs are not full. 0: it holds none
  /// of that size. All 0: not known; plans then take clusters of up to 8 blocks.
  std::array<int, 4> resident_clusters = {0, 0, 0, 0};
  /// Multiprocessors that grids leave to others, such as NCCL's kernels; with any, there are no
  /// clusters of 16. Bits of dgamma and dbeta depend on it, as they do on the device, and those of
  /// y and dx of rows that need such clusters.
  int reserved_multiprocessors = 0;
};

/// The facts of device `ordinal`. Makes CUDA runtime calls; do it once.
Result<Device> query(int ordinal);

/// Which kernel a row of this width gets; docs/cuda.md says when.
enum class Kernel : std::uint8_t {
  none,     ///< an empty problem: nothing to launch
  narrow,   ///< 1 to 32 lanes a row, the row in registers
  wide,     ///< a block's warps share a row, the row in registers
  cluster,  ///< a cluster of blocks a row, parts merged through distributed shared memory (sm_90+)
  reread,   ///< forward: a block a row, the row read again through L2
  split,    ///< forward: a row over many blocks, in two launches
  strips,   ///< backward: columns in strips, x and dy read twice, in two launches
  copy,     ///< backward without dy: the gradient of the row is ds
  columns,  ///< backward, the second launch: dgamma and dbeta from partial sums
};

/// The rows that a block has in flight while it works on others: at the start of its dynamic shared
/// memory, from sm_80 on.
struct Ring {
  int stages = 0;       ///< rows that each warp has requested ahead; 0: none
  int stage_bytes = 0;  ///< of a block
  int warp_bytes = 0;   ///< of a warp in a stage
  int bytes = 0;        ///< set aside for all stages
};

/// One launch, decided when the plan is made; a run fills in the arguments.
struct Launch {
  Kernel kernel = Kernel::none;
  int lanes_per_row = 0;       ///< threads that share a row (a cluster's blocks together)
  int vectors_per_thread = 0;  ///< register tiles of 16 bytes each thread holds of a row
  int threads_per_block = 0;
  int blocks_per_row = 0;        ///< cluster size, or parts of a split row
  std::int64_t blocks = 0;       ///< grid size
  std::size_t shared_bytes = 0;  ///< dynamic, the ring included
  Ring ring;  ///< for rows that start on a 16-byte boundary; a run adapts it to others
  const void* function = nullptr;  ///< the kernel, for rows of any alignment
  /// The kernel for rows that all start on a 16-byte boundary, which only a run can know, its
  /// shared memory and ring. Null: `function` serves these, too.
  const void* aligned_function = nullptr;
  std::size_t aligned_shared_bytes = 0;
  Ring aligned_ring;
  /// Set up while the launch before still runs, on whose results the kernel waits: where the code
  /// that was loaded can, which a run asks (sm_90+).
  bool dependent = false;
};

struct ForwardPlan {
  ForwardProblem problem;
  Device device;
  Launch launch;
  Launch second;  ///< of a split row
  std::size_t workspace_bytes = 0;
};

struct BackwardPlan {
  BackwardProblem problem;
  Device device;
  Launch launch;
  Launch second;                   ///< column sums, and dx of strips
  std::int64_t column_blocks = 0;  ///< of the second launch of strips: those that sum columns
  std::int64_t writers = 0;        ///< blocks (clusters) that share the rows of a parameter group
  std::int64_t chunks = 0;         ///< partial sums that each of them leaves
  std::int64_t most_rows = 0;      ///< that one thread takes of a parameter group
  std::int64_t partials = 0;       ///< rows of partial sums for each row of dgamma and dbeta
  std::size_t workspace_bytes = 0;
};

Result<ForwardPlan> plan(const ForwardProblem& problem, const Device& device);
Result<BackwardPlan> plan(const BackwardProblem& problem, const Device& device);

/// The choice in a sentence, for people.
std::string explain(const ForwardPlan& plan);
std::string explain(const BackwardPlan& plan);

Status run(const ForwardPlan& plan, const ForwardBuffers& buffers, Workspace workspace,
           Stream stream);
Status run(const BackwardPlan& plan, const BackwardBuffers& buffers, Workspace workspace,
           Stream stream);

}  // namespace fusednorm::cuda
