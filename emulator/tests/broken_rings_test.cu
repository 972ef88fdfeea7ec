// SPDX-License-Identifier: Apache-2.0
// Broken and sound uses of cp.async.
#include <cuda_pipeline_primitives.h>

#include <vector>

#include "broken.h"

namespace {

__global__ void wait_missing(const float4* x, float4* out) {
  __shared__ float4 s[32];
  __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 16);
  __pipeline_commit();
  out[threadIdx.x] = s[threadIdx.x];
}
TEST_F(Broken, AsynchronousCopyWithoutWait) {
  DeviceArray<float4> x(std::vector<float4>(32, make_float4(1, 2, 3, 4))), out(32);
  wait_missing<<<1, 32>>>(x.get(), out.get());
  expect_fault(cudaErrorLaunchFailure, {"uninitialised shared load", "cp.async"});
}

// A ring of two rows that a warp fills, as prefetching kernels do. A lane reads what it copied
// itself or, `shared`, what its neighbour did.
enum class Ring {
  sound,
  one_copy_too_few_waited_for,
  refilled_before_it_is_read,
  shared,
  shared_and_read_before_the_neighbour_has_waited,
  shared_and_refilled_before_the_neighbour_has_read
};
__global__ void ring(const float4* x, float* out, int rows, Ring how) {
  __shared__ float4 slots[2][32];
  const auto fetch = [&](int row) {
    if (row < rows)
      __pipeline_memcpy_async(&slots[row % 2][threadIdx.x], &x[row * 32 + threadIdx.x], 16);
    __pipeline_commit();
  };
  const bool shared = how >= Ring::shared;
  const unsigned place = (threadIdx.x + (shared ? 1 : 0)) % 32;
  fetch(0);
  fetch(1);
  float sum = 0;
  for (int row = 0; row < rows; ++row) {
    __pipeline_wait_prior(how == Ring::one_copy_too_few_waited_for ? 2 : 1);
    if (shared && how != Ring::shared_and_read_before_the_neighbour_has_waited) __syncwarp();
    if (how == Ring::refilled_before_it_is_read) fetch(row + 2);
    sum += slots[row % 2][place].x;
    if (shared && how != Ring::shared_and_refilled_before_the_neighbour_has_read) __syncwarp();
    if (how != Ring::refilled_before_it_is_read) fetch(row + 2);
  }
  out[threadIdx.x] = sum;
}
TEST_F(Broken, RingOfAsynchronousCopies) {
  DeviceArray<float4> x(std::vector<float4>(32 * 5, make_float4(1, 2, 3, 4)));
  DeviceArray<float> out(32);
  for (const Ring how : {Ring::sound, Ring::shared}) {
    ring<<<1, 32>>>(x.get(), out.get(), 5, how);
    expect_sound();
  }
  for (const Ring how : {Ring::one_copy_too_few_waited_for, Ring::refilled_before_it_is_read}) {
    ring<<<1, 32>>>(x.get(), out.get(), 5, how);
    expect_fault(cudaErrorLaunchFailure, {"uninitialised shared load", "cp.async"});
  }
  for (const Ring how : {Ring::shared_and_read_before_the_neighbour_has_waited,
                         Ring::shared_and_refilled_before_the_neighbour_has_read}) {
    ring<<<1, 32>>>(x.get(), out.get(), 5, how);
    expect_fault(cudaErrorLaunchFailure, {"shared-memory race", "no __syncwarp between them"});
  }
}

// Rows that start anywhere are copied from the boundary of 16 bytes before them: what lies there
// may be undefined as long as nobody reads it from the copy.
__global__ void copied_from_boundary(const float* x, float* out, int first) {
  __shared__ float4 piece;
  __pipeline_memcpy_async(&piece, x, 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[0] = reinterpret_cast<const float*>(&piece)[first];
}
TEST_F(Broken, ReadingWhatWasUndefinedWhereItWasCopiedFrom) {
  DeviceArray<float> x(4), out(1);
  const float last[3] = {2, 3, 4};
  ASSERT_EQ(cudaMemcpy(x.get() + 1, last, sizeof last, cudaMemcpyHostToDevice), cudaSuccess);
  copied_from_boundary<<<1, 1>>>(x.get(), out.get(), 1);
  expect_sound();
  copied_from_boundary<<<1, 1>>>(x.get(), out.get(), 0);
  expect_fault(cudaErrorLaunchFailure, {"uninitialised shared load"});
}

}  // namespace
