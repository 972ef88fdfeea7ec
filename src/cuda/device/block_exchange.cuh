// SPDX-License-Identifier: Apache-2.0
// What the warps of a row tell each other, through the shared memory of their block or of every
// block of their cluster. One barrier a row: two sets of slots take turns.
#pragma once

#include "device/arguments.h"
#include "device/cluster.cuh"
#include "device/kept.cuh"
#include "device/segments.cuh"
#include "plan/sizes.h"

namespace fusednorm::cuda {

/// Forward: each warp's moments, for every warp of the row.
template <typename C, bool clustered>
struct MomentExchange {
  struct Slots {
    SegmentMoments<C> of[2][clustered ? max_cluster_segments(sizeof(C)) : max_block_segments];
    std::uint64_t barriers[clustered ? 2 : 1];
  };
  ClusterRounds rounds;

  __device__ __forceinline__ MomentExchange(Slots& slots, const ForwardArguments& a)
      : rounds(slots.barriers) {
    if constexpr (clustered) rounds.start(a.blocks_per_row * blockDim.x / warp_lanes);
  }

  __device__ __forceinline__ void share(SegmentMoments<C>* slots, const SegmentMoments<C>& own,
                                        int segment, const ForwardArguments& a) {
    if constexpr (clustered) {
      const int lane = threadIdx.x % warp_lanes;
      if (lane < a.blocks_per_row) {
        if (segment < a.segments)
          cluster_send(static_cast<std::uint32_t>(__cvta_generic_to_shared(slots + segment)),
                       rounds.barrier(), lane, own);
        else
          cluster_pass(rounds.barrier(), lane);
      }
      rounds.wait();
    } else {
      if (segment < a.segments && threadIdx.x % warp_lanes == 0) slots[segment] = own;
      __syncthreads();
    }
  }
};

/// Backward: where the warps of a row leave their two sums for each other, in the shared memory of
/// every block of the row: one of `segments` numbers after the other, each padded with zeros so
/// that reading them needs no question. Two sets take turns, so one barrier a row is enough.
/// `lean`: what can be found again for each row is not kept in registers, where rows have none to
/// spare.
template <typename C, bool clustered, bool lean>
struct SharedSums {
  static constexpr int half_warp = warp_lanes / 2;
  static constexpr int numbers =
      2 * (clustered ? max_cluster_segments(sizeof(C)) : 4 * max_block_segments);
  struct alignas(16) Slots {
    C of[2][numbers];
    std::uint64_t barriers[clustered ? 2 : 1];
  };
  ClusterRounds rounds;
  unsigned own;      ///< where this lane's half of the warp leaves its sum
  unsigned read;     ///< what this lane reads
  int to_other_set;  ///< bytes from the set in use to the other
  int pitch;
  int upper;  ///< whether this lane is of the warp's upper half, which adds up the second sum
  int writes;
  int barrier;
  int threads;

  __device__ __forceinline__ SharedSums(Slots& slots, int segments, int segment, int group,
                                        int warps)
      : rounds(slots.barriers) {
    const int lane = threadIdx.x % warp_lanes, half = lane / half_warp, in_half = lane % half_warp;
    const bool few = segments <= few_segments;
    pitch = few ? few_segments : (segments + half_warp - 1) / half_warp * half_warp;
    pitch = kept(pitch);
    const C* row = &slots.of[0][group * 2 * pitch];
    const auto address = [](const C* place) {
      return kept(static_cast<unsigned>(__cvta_generic_to_shared(place)));
    };
    own = address(row + half * pitch + segment);
    read = address(row + (few ? in_half : half * pitch + in_half));
    to_other_set = static_cast<int>(numbers * sizeof(C));
    if constexpr (!lean) to_other_set = kept(to_other_set);
    upper = half;
    writes = static_cast<int>(clustered ? segment < segments : in_half == 0);
    barrier = 1 + group;
    threads = warps * warp_lanes;
    if constexpr (!lean) {
      upper = kept(upper);
      writes = kept(writes);
      barrier = kept(barrier);
      threads = kept(threads);
    }
  }

  /// Every thread of the block, or the cluster, calls it before the first sum.
  static __device__ __forceinline__ void start(Slots& slots, int blocks_per_row, int warps) {
    for (int i = threadIdx.x; i < 2 * numbers; i += blockDim.x) slots.of[0][i] = 0;
    if constexpr (clustered)
      ClusterRounds(slots.barriers).start(2 * blocks_per_row * warps);
    else
      __syncthreads();
  }

  /// The row's sums of `a` and `b`, in every lane.
  __device__ __forceinline__ void sum(C& a, C& b, int blocks_per_row) {
    const C warp_sum = lanes_sum_halves<warp_lanes>(a, b, upper != 0, every_lane);
    if constexpr (clustered) {
      const int in_half = threadIdx.x % half_warp;
      if (in_half < blocks_per_row) {
        if (writes != 0)
          cluster_send(own, rounds.barrier(), in_half, warp_sum);
        else
          cluster_pass(rounds.barrier(), in_half);
      }
      rounds.wait();
    } else {
      if (writes != 0) store_shared(own, warp_sum);
      asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
    }
    C part = load_shared<C>(read);
    int second = half_warp;
    if (pitch == few_segments) {
      part = lanes_sum<few_segments>(part, every_lane);
      second = few_segments;
    } else {
      for (int s = half_warp; s < pitch; s += half_warp)
        part += load_shared<C>(read + s * static_cast<unsigned>(sizeof(C)));
      part = lanes_sum<half_warp>(part, every_lane);
    }
    a = __shfl_sync(every_lane, part, 0);
    b = __shfl_sync(every_lane, part, second);
    own += to_other_set;
    read += to_other_set;
    to_other_set = -to_other_set;
  }
};

}  // namespace fusednorm::cuda
