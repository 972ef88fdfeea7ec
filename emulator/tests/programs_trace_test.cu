// SPDX-License-Identifier: Apache-2.0
// Traces of launches, and registers as the caller gives them.
#include <cuda_pipeline.h>

#include <map>
#include <set>

#include "on_every_device.h"

namespace {

class Traces : public OnEveryDevice {
 protected:
  void TearDown() override {
    fusednorm_emulator_set_trace(nullptr, nullptr);
    fusednorm_emulator_set_registers(nullptr, nullptr);
    OnEveryDevice::TearDown();
  }
};
INSTANTIATE_TEST_SUITE_P(Capabilities, Traces, every_capability());

int trace_all(const FusednormEmulatorLaunch*, uint64_t, void*) {
  return FUSEDNORM_EMULATOR_TRACE;
}

template <class Launch>
FusednormEmulatorTrace traced(Launch launch, FusednormEmulatorLaunch* counted = nullptr) {
  fusednorm_emulator_reset_launches();
  launch();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
  FusednormEmulatorTrace out{};
  EXPECT_EQ(fusednorm_emulator_trace(0, &out), 0);
  if (counted) fusednorm_emulator_launch(0, counted);
  return out;
}

std::string text_of(const FusednormEmulatorTrace& trace, const FusednormEmulatorStep& step) {
  return trace.statements[step.statement].text;
}

bool begins(const std::string& text, const char* with) {
  return text.rfind(with, 0) == 0;
}

__global__ void add_one(const float4* x, float4* y) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = x[at];
  v.x += 1;
  y[at] = v;
}

TEST_P(Traces, HasEveryStatementAndSector) {
  fusednorm_emulator_set_trace(trace_all, nullptr);
  DeviceArray<float4> x(std::vector<float4>(256, make_float4(1, 2, 3, 4))), y(256);
  FusednormEmulatorLaunch launch{};
  const auto trace = traced([&] { add_one<<<4, 64>>>(x.get(), y.get()); }, &launch);
  ASSERT_EQ(trace.warp_count, 8u);
  uint64_t statements = 0, weighted = 0, loaded = 0, stored = 0, fresh = 0;
  std::set<uint32_t> arrays;
  for (size_t w = 0; w < trace.warp_count; ++w)
    for (size_t s = 0; s < trace.warps[w].step_count; ++s) {
      const FusednormEmulatorStep& step = trace.warps[w].steps[s];
      ++statements;
      weighted += trace.statements[step.statement].weight;
      const std::string text = text_of(trace, step);
      if (begins(text, "ld.global")) loaded += step.sectors;
      if (begins(text, "st.global")) stored += step.sectors;
      if (step.sectors) arrays.insert(step.array);
      fresh += step.new_sectors;
      EXPECT_EQ(step.arrives + step.waits, 0u);
    }
  EXPECT_EQ(statements, launch.raw_warp_instructions);
  EXPECT_EQ(weighted, launch.warp_instructions);
  EXPECT_EQ(loaded, launch.global_load_sectors);
  EXPECT_EQ(stored, launch.global_store_sectors);
  EXPECT_EQ(fresh, launch.dram_load_sectors + launch.dram_store_sectors);
  ASSERT_EQ(arrays.size(), 2u);
  for (const uint32_t array : arrays) EXPECT_EQ(trace.arrays[array].bytes, 256 * sizeof(float4));
}

// The addition reads what the load writes, and the store what the addition writes.
TEST_P(Traces, RegistersTieStatementsTogether) {
  fusednorm_emulator_set_trace(trace_all, nullptr);
  DeviceArray<float4> x(std::vector<float4>(32, make_float4(1, 2, 3, 4))), y(32);
  const auto trace = traced([&] { add_one<<<1, 32>>>(x.get(), y.get()); });
  const auto find = [&](const char* opcode) -> const FusednormEmulatorStatement& {
    for (size_t k = 0; k < trace.statement_count; ++k)
      if (begins(trace.statements[k].text, opcode)) return trace.statements[k];
    ADD_FAILURE() << opcode;
    return trace.statements[0];
  };
  const auto feeds = [](const FusednormEmulatorStatement& from,
                        const FusednormEmulatorStatement& to) {
    for (uint32_t w = from.reads; w < from.reads + from.writes; ++w)
      for (uint32_t r = 0; r < to.reads; ++r)
        if (from.registers[w] == to.registers[r]) return true;
    return false;
  };
  const auto &load = find("ld.global"), &add = find("add.f32"), &store = find("st.global");
  EXPECT_EQ(load.writes, 4u);
  EXPECT_EQ(store.writes, 0u);
  EXPECT_TRUE(feeds(load, add));
  EXPECT_TRUE(feeds(add, store));
  EXPECT_FALSE(feeds(store, load));
}

__global__ void barriers(int* out) {
  __shared__ int slot[2][64];
  for (int k = 0; k < 3; ++k) {
    slot[k % 2][threadIdx.x] = k;
    __syncthreads();
  }
  out[blockIdx.x * 64 + threadIdx.x] = slot[0][63 - threadIdx.x];
}

TEST_P(Traces, EachPhaseOfABarrierIsASignal) {
  fusednorm_emulator_set_trace(trace_all, nullptr);
  DeviceArray<int> out(128);
  for_seeds([&] {
    const auto trace = traced([&] { barriers<<<2, 64>>>(out.get()); });
    std::map<uint32_t, int> arrivals;
    std::map<uint32_t, std::set<uint64_t>> blocks;
    for (size_t w = 0; w < trace.warp_count; ++w)
      for (size_t s = 0; s < trace.warps[w].step_count; ++s) {
        const FusednormEmulatorStep& step = trace.warps[w].steps[s];
        if (!begins(text_of(trace, step), "bar")) continue;
        EXPECT_EQ(step.arrives, step.waits);
        ++arrivals[step.arrives];
        blocks[step.arrives].insert(trace.warps[w].block);
      }
    EXPECT_EQ(arrivals.size(), 2 * 3u);
    EXPECT_EQ(trace.signal_count, 2 * 3u);
    for (const auto& [signal, count] : arrivals) EXPECT_EQ(count, 2) << signal;
    for (const auto& [signal, which] : blocks) EXPECT_EQ(which.size(), 1u) << signal;
  });
}

__global__ void strided_shared(int* out) {
  __shared__ int values[32 * 32];
  values[threadIdx.x * 32] = 1;
  __syncwarp();
  out[threadIdx.x] = values[threadIdx.x * 32];
}

TEST_P(Traces, HasWavefrontsOfSharedMemory) {
  fusednorm_emulator_set_trace(trace_all, nullptr);
  DeviceArray<int> out(32);
  const auto trace = traced([&] { strided_shared<<<1, 32>>>(out.get()); });
  int shared = 0;
  for (size_t s = 0; s < trace.warps[0].step_count; ++s) {
    const FusednormEmulatorStep& step = trace.warps[0].steps[s];
    const std::string text = text_of(trace, step);
    if (!begins(text, "st.shared") && !begins(text, "ld.shared")) continue;
    EXPECT_EQ(step.wavefronts, 32u) << text;
    ++shared;
  }
  EXPECT_EQ(shared, 2);
}

// A bulk copy a row; a warp of consumers waits for its mbarrier.
__global__ void bulk_rows(const int4* x, int* out, int rows) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) int4 stage[32];
  __shared__ alignas(8) unsigned long long full;
  const unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(&full));
  const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(stage));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  int sum = 0;
  for (int row = 0; row < rows; ++row) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" ::"r"(barrier) : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, "
          "[%2];" ::"r"(target),
          "l"(x + row * 32), "r"(barrier)
          : "memory");
    }
    asm volatile(
        "{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; "
        "}" ::"r"(barrier),
        "r"(row & 1)
        : "memory");
    sum += stage[threadIdx.x % 32].x;
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("fence.proxy.async;" ::: "memory");
  }
  out[threadIdx.x] = sum;
#endif
}

TEST_P(Traces, CopiesArriveWhereWarpsWait) {
  if (GetParam() < 90) GTEST_SKIP() << "cp.async.bulk needs compute capability 9.0";
  fusednorm_emulator_set_trace(trace_all, nullptr);
  const int rows = 5;
  DeviceArray<int4> x(std::vector<int4>(rows * 32, make_int4(1, 2, 3, 4)));
  DeviceArray<int> out(64);
  for_seeds([&] {
    FusednormEmulatorLaunch launch{};
    const auto trace = traced([&] { bulk_rows<<<1, 64>>>(x.get(), out.get(), rows); }, &launch);
    EXPECT_EQ(launch.global_load_sectors, rows * 16u) << "512 bytes a copy";
    std::vector<uint32_t> copies;
    std::map<uint32_t, std::vector<uint32_t>> waits;  // by warp
    for (size_t w = 0; w < trace.warp_count; ++w)
      for (size_t s = 0; s < trace.warps[w].step_count; ++s) {
        const FusednormEmulatorStep& step = trace.warps[w].steps[s];
        const std::string text = text_of(trace, step);
        if (begins(text, "cp.async.bulk") && step.lanes) {
          copies.push_back(step.arrives);
          EXPECT_EQ(step.sectors, 16u);
          EXPECT_EQ(step.new_sectors, 16u);
        }
        if (begins(text, "mbarrier.try_wait")) waits[trace.warps[w].warp].push_back(step.waits);
      }
    ASSERT_EQ(copies.size(), size_t(rows));
    EXPECT_EQ(std::set<uint32_t>(copies.begin(), copies.end()).size(), size_t(rows));
    // However often the emulated warps looked in vain, each waits once a row, for its copy.
    EXPECT_EQ(waits[0], copies);
    EXPECT_EQ(waits[1], copies);
  });
}

__global__ void mark_block(int* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = 1;
}

TEST_P(Traces, OnlyWhatIsChosenRuns) {
  DeviceArray<int> out(std::vector<int>(8, 0));
  fusednorm_emulator_set_trace(
      [](const FusednormEmulatorLaunch* launch, uint64_t cluster, void*) -> int {
        EXPECT_EQ(launch->grid[0], 8u);
        EXPECT_GE(launch->resident_blocks, 1u);
        return cluster == 2   ? FUSEDNORM_EMULATOR_TRACE
               : cluster == 5 ? FUSEDNORM_EMULATOR_RUN
                              : FUSEDNORM_EMULATOR_SKIP;
      },
      nullptr);
  const auto trace = traced([&] { mark_block<<<8, 32>>>(out.get()); });
  ASSERT_EQ(trace.warp_count, 1u);
  EXPECT_EQ(trace.warps[0].block, 2u);
  EXPECT_EQ(out.values(), (std::vector<int>{0, 0, 1, 0, 0, 1, 0, 0}));
  fusednorm_emulator_set_trace(nullptr, nullptr);
  fusednorm_emulator_reset_launches();
  mark_block<<<8, 32>>>(out.get());
  FusednormEmulatorTrace none;
  EXPECT_EQ(fusednorm_emulator_trace(0, &none), -1);
}

TEST_P(Traces, RegistersLimitResidentBlocks) {
  // 64 registers a thread: 16384 / (64 x 32) warps in each of four files.
  int asked = 0;
  fusednorm_emulator_set_registers(
      [](const char* kernel, int capability, void* seen) -> int {
        *static_cast<int*>(seen) = capability;
        return std::string(kernel).find("mark_block") != std::string::npos ? 64 : 0;
      },
      &asked);
  DeviceArray<int> out(std::vector<int>(8, 0));
  fusednorm_emulator_reset_launches();
  mark_block<<<8, 256>>>(out.get());
  FusednormEmulatorLaunch launch{};
  ASSERT_EQ(fusednorm_emulator_launch(0, &launch), 0);
  EXPECT_EQ(asked, GetParam());
  int threads = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0),
            cudaSuccess);
  EXPECT_EQ(launch.resident_blocks, unsigned(std::min(threads / 256, 32 / 8)));
}

}  // namespace
