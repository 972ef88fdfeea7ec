// The small reductions around the backward kernels: a row's sums from its segments, and dgamma and
// dbeta from the partial sums that blocks left.
#pragma once

#include "cluster.cuh"
#include "elements.cuh"
#include "kernel_sizes.h"
#include "reduce.cuh"
#include "shared.cuh"

namespace fusednorm::cuda {

/// A row's two sums over its segments, which lie in global memory.
template <typename Sums>
__device__ __forceinline__ Sums sum_rows(const Sums* parts, std::int64_t segments, int lane) {
  Sums total{0, 0};
  for (std::int64_t s = lane; s < segments; s += warp_lanes) {
    total.g += parts[s].g;
    total.g_xhat += parts[s].g_xhat;
  }
  lanes_sum_both<warp_lanes>(total.g, total.g_xhat);
  return total;
}

/// Where the warps of a row leave their two sums for each other, in the shared memory of every
/// block of the row: one of `segments` numbers after the other, each padded with zeros so that
/// reading them needs no question. Two sets take turns, so one barrier a row is enough.
template <typename C, bool clustered>
struct SharedSums {
  static constexpr int half_warp = warp_lanes / 2;
  static constexpr int numbers = 2 * max_cluster_segments;
  struct alignas(16) Slots {
    C of[2][numbers];
  };
  unsigned own;      ///< where this lane's half of the warp leaves its sum
  unsigned read;     ///< what this lane reads
  int to_other_set;  ///< bytes from the set in use to the other
  int pitch;
  int upper;  ///< whether this lane is of the warp's upper half, which adds up the second sum
  int writes;
  int barrier;
  int threads;

  __device__ __forceinline__ SharedSums(Slots& slots, int segments, int segment, int group,
                                        int warps) {
    const int lane = threadIdx.x % warp_lanes, half = lane / half_warp, in_half = lane % half_warp;
    const bool few = segments <= few_segments;
    pitch = kept(few ? few_segments : (segments + half_warp - 1) / half_warp * half_warp);
    const C* row = &slots.of[0][group * 2 * pitch];
    const auto address = [](const C* place) {
      return kept(static_cast<unsigned>(__cvta_generic_to_shared(place)));
    };
    own = address(row + half * pitch + segment);
    read = address(row + (few ? in_half : half * pitch + in_half));
    to_other_set = kept(static_cast<int>(numbers * sizeof(C)));
    upper = kept(half);
    writes = kept(static_cast<int>(clustered ? segment < segments : in_half == 0));
    barrier = kept(1 + group);
    threads = kept(warps * warp_lanes);
  }

  static __device__ __forceinline__ void clear(Slots& slots) {
    for (int i = threadIdx.x; i < 2 * numbers; i += blockDim.x) slots.of[0][i] = 0;
    if constexpr (clustered)
      cluster_barrier();
    else
      __syncthreads();
  }

  /// factor * the row's sums of `a` and `b`, in every lane.
  __device__ __forceinline__ void sum(C& a, C& b, C factor, int blocks_per_row) {
    const C warp_sum = lanes_sum_halves<warp_lanes>(a, b, upper != 0);
    if constexpr (clustered) {
      const int in_half = threadIdx.x % half_warp;
      if (writes != 0 && in_half < blocks_per_row) cluster_write(own, in_half, warp_sum);
      cluster_barrier();
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
    part *= factor;
    a = __shfl_sync(every_lane, part, 0);
    b = __shfl_sync(every_lane, part, second);
    own += to_other_set;
    read += to_other_set;
    to_other_set = -to_other_set;
  }
};

/// A block takes 32 columns at a time: each of its warps adds every warps-th partial, neighbouring
/// lanes neighbouring columns, then one warp adds the warps' sums. Every thread of the block calls
/// it.
template <typename TP, typename C>
__device__ __forceinline__ void sum_columns(const ColumnArguments& a, std::int64_t block,
                                            std::int64_t blocks) {
  __shared__ C shared[2][column_warps][warp_lanes];
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes,
            warps = blockDim.x / warp_lanes;
  for (; block * warp_lanes < a.cols; block += blocks) {
    const std::int64_t column = block * warp_lanes + lane;
    C dgamma = 0, dbeta = 0;
    if (column < a.cols) {
      const C* partials = static_cast<const C*>(a.partials) + (column + warp * a.cols);
      const std::int64_t to_dbeta = a.partial_count * a.cols, step = warps * a.cols;
#pragma unroll 4
      for (int p = warp; p < static_cast<int>(a.partial_count); p += warps, partials += step) {
        dgamma += partials[0];
        dbeta += partials[to_dbeta];
      }
    }
    if (warps > 1) {
      shared[0][warp][lane] = dgamma;
      shared[1][warp][lane] = dbeta;
      __syncthreads();
      for (int w = 1; warp == 0 && w < warps; ++w) {
        dgamma += shared[0][w][lane];
        dbeta += shared[1][w][lane];
      }
    }
    if (warp == 0 && column < a.cols) {
      if (a.dgamma) static_cast<TP*>(a.dgamma)[column] = from_compute<TP>(dgamma);
      if (a.dbeta) static_cast<TP*>(a.dbeta)[column] = from_compute<TP>(dbeta);
    }
    if (warps > 1) __syncthreads();
  }
}

template <typename TP, typename C>
__global__ void __launch_bounds__(column_threads, 1) backward_columns(ColumnArguments a) {
  sum_columns<TP, C>(a, blockIdx.x, gridDim.x);
}

}  // namespace fusednorm::cuda
