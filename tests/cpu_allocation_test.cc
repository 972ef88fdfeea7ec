// SPDX-License-Identifier: Apache-2.0
// plan and run allocate nothing: every way to the heap is counted while they work.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "cpu_backend.h"
#include "harness.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

void count() {
  if (counting) ++allocations;
}
}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// The sanitizers own malloc; operator new is still ours to replace. Not inlined: gcc warns of a
// free without its malloc where it sees only one half of the pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  count();
  return std::malloc(size);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  count();
  return std::aligned_alloc(static_cast<std::size_t>(alignment),
                            (size + static_cast<std::size_t>(alignment) - 1) &
                                ~(static_cast<std::size_t>(alignment) - 1));
}
[[gnu::noinline]] void operator delete(void* pointer) noexcept {
  std::free(pointer);
}
[[gnu::noinline]] void operator delete(void* pointer, std::size_t) noexcept {
  std::free(pointer);
}
[[gnu::noinline]] void operator delete(void* pointer, std::align_val_t) noexcept {
  std::free(pointer);
}
[[gnu::noinline]] void operator delete(void* pointer, std::size_t, std::align_val_t) noexcept {
  std::free(pointer);
}
#else
// glibc's own entry points behind the names that everything, operator new included, calls.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* pointer, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void* malloc(std::size_t size) {
  count();
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) {
  count();
  return __libc_calloc(number, size);
}
void* realloc(void* pointer, std::size_t size) {
  count();
  return __libc_realloc(pointer, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** pointer, std::size_t alignment, std::size_t size) {
  count();
  *pointer = __libc_memalign(alignment, size);
  return *pointer != nullptr ? 0 : 12;
}
}
#endif

namespace fusednorm::testing {
namespace {

const auto kInThisThread = [](std::int64_t tasks, cpu::Task body) {
  for (std::int64_t task = 0; task < tasks; ++task) {
    body(task);
  }
};

TEST(Allocation, TheCounterCounts) {
  counting = true;
  allocations = 0;
  { const auto storage = std::make_unique<std::vector<int>>(100); }
  counting = false;
  EXPECT_GE(allocations, 1);
}

TEST(Allocation, NoneInPlanAndRun) {
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    for (const cpu::Device& device : {make_device(set, 1), small_cache_device(set, 8)}) {
      for (const char* text :
           {"forward:f32:64x64", "forward:bf16/f32:9x20001", "backward:f32:64x64",
            "backward:bf16/f32:300x8", "backward:f16:3x20001", "backward_from_y:f64:20x99",
            "forward:bf16/f32:64x64:residual=f32:rounding=via_x",
            "backward:f32:24x64:residual=f32:groups=6:inner=6:outer=640:gamma_offset=1",
            "forward:f32/bf16/bf16:2x20001:residual=f32:gamma_offset=1",
            "backward:bf16:300x64:residual=f32:groups=3:gamma_offset=1",
            "backward:f32/bf16/bf16:2x20001:residual=f32",
            "backward_from_y:bf16/f32:90x64:residual=bf16:groups=90"}) {
        const Problem problem = parse(text);
        if (const std::string why = CpuBackend(device, {1}).leaves_out(problem); !why.empty()) {
          std::printf("left out %s: %s\n", text, why.c_str());
          continue;
        }
        Layout layout(problem, make_operands(problem));
        Memory& memory = layout.memory;
        const ForwardProblem forward = forward_problem(problem);
        const BackwardProblem backward = backward_problem(problem);
        std::vector<std::byte> workspace(1 << 22);
        const auto at = [&](Place place) { return memory.at(place); };
        const BackwardBuffers buffers = buffers_of(layout.backward, backward.source, at);
        const ForwardBuffers forward_buffers = buffers_of(layout.forward, at);
        bool ok = false;
        allocations = 0;
        counting = true;
        if (problem.is_forward()) {
          const auto plan = cpu::plan(forward, device);
          ok = plan && cpu::run(*plan, forward_buffers, {workspace.data(), workspace.size()},
                                kInThisThread);
        } else {
          const auto plan = cpu::plan(backward, device);
          ok =
              plan && cpu::run(*plan, buffers, {workspace.data(), workspace.size()}, kInThisThread);
        }
        counting = false;
        EXPECT_TRUE(ok) << text;
        EXPECT_EQ(allocations, 0) << text << " on " << set.name();
      }
    }
  }
}

}  // namespace
}  // namespace fusednorm::testing
