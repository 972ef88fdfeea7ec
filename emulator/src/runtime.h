// SPDX-License-Identifier: Apache-2.0
// State behind the CUDA runtime API: devices, modules, kernels, streams, and what went wrong last.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../include/fusednorm_emulator.h"
#include "cuda_version.h"
#include "fatbin.h"
#include "launch.h"
#include "memory.h"
#include "program.h"
#include "stream.h"
#include "trace.h"

namespace fusednorm::emulator {

constexpr int kReservedShared = 1024;  // of shared memory, a block, from sm_80 on

struct Device {
  FusednormEmulatorDevice config{};
  std::mutex mutex;  // one kernel, copy or allocation at a time
  cudaError_t sticky = cudaSuccess;
  uint64_t grid_workspace = 0;
  int capability() const { return config.major * 10 + config.minor; }
  // From 9.0 on a block's shared memory begins behind the KiB that the system reserves.
  uint32_t shared_base() const { return config.major >= 9 ? kReservedShared : 0; }
};

// A module as one device sees it.
struct LoadedModule {
  Module module;
  std::map<std::string, Allocation*> variables;
  std::map<std::string, Program> programs;
  cudaError_t error = cudaSuccess;
  std::string why;
  const FatbinEntry* entry = nullptr;  // what it was made of
  uint32_t shared_base = 0;            // and for
};

struct RegisteredModule {
  const void* wrapper = nullptr;
  Fatbin fatbin;
  std::map<int, std::unique_ptr<LoadedModule>> loaded;  // by device
  // Of devices that are gone, without variables: a device of the same kind takes them as they are,
  // for parsing a large module takes seconds.
  std::vector<std::unique_ptr<LoadedModule>> spare;
};

// What cudaFuncSetAttribute has set of a function on one device, by whichever host thread.
struct FunctionAttributes {
  int max_dynamic_shared = -1;  // -1: never set, the device's limit without opting in
  bool allows_large_clusters = false;
  int carveout = -1;
};

struct Kernel {
  RegisteredModule* module = nullptr;
  const void* host = nullptr;
  std::string name;
  bool agreed = false;                           // on the parameters, with all of `host`
  std::map<int, FunctionAttributes> attributes;  // by device
};

struct HostVariable {
  RegisteredModule* module = nullptr;
  std::string name;
  size_t bytes = 0;
};

// The last launch of a stream, which a programmatic dependent launch need not wait for.
struct LastLaunch {
  uint64_t id = 0;
  std::string kernel;
  bool triggered_early = false;
  std::vector<std::shared_ptr<const EarlierLaunch>> unfinished;  // when it started
};

struct LaunchShape {
  dim3 grid, block, cluster{1, 1, 1};
  bool has_cluster = false;
  bool cooperative = false;
  bool programmatic = false;  // may start before the launch before it in the stream is over
  size_t dynamic_shared = 0;
};

class Runtime {
 public:
  static Runtime& get();

  std::mutex mutex;  // of everything below but the devices' own state
  std::vector<std::unique_ptr<Device>> devices;
  Memory memory;
  std::vector<std::unique_ptr<RegisteredModule>> modules;
  std::map<const void*, Kernel*> kernels_by_host;
  std::map<const void*, std::vector<Kernel*>> registrations;  // more than one: a shared template
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::set<const void*> kernel_handles;
  std::map<const void*, HostVariable> variables;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::vector<FusednormEmulatorLaunch> launches;
  std::map<size_t, std::shared_ptr<Trace>> traces;  // by the launch's place in `launches`
  FusednormEmulatorChoice choice = nullptr;
  void* choice_context = nullptr;
  FusednormEmulatorRegisters registers = nullptr;
  void* registers_context = nullptr;
  std::map<std::pair<int, cudaStream_t>, LastLaunch> last_launches;
  std::string last_report;
  bool print_reports = true;
  bool print_counters = false;
  uint64_t seed = 0;
  uint64_t next_launch = 1;
  unsigned host_threads = 0;
  int newest_ptx = 999;  // PTX for later architectures is passed over
  unsigned load_latency = FUSEDNORM_EMULATOR_LOAD_LATENCY;
  Checks checks;
  std::vector<std::shared_ptr<Capture>> captures;  // under way

  Device& device(int index) { return *devices[static_cast<size_t>(index)]; }
  LoadedModule& load(RegisteredModule& module, int device);
  Kernel* kernel(const void* function);
  const Program* program(Kernel& kernel, int device, cudaError_t& error);
  void report(const std::string& text);
  void set_devices(std::vector<FusednormEmulatorDevice> configs);

 private:
  Runtime();
};

int current_device();
void set_current_device(int device);
// Remembers an error for cudaGetLastError and returns it.
cudaError_t result(cudaError_t error);
// The sticky error of the current device, if any.
cudaError_t device_state();
// cudaErrorStreamCaptureUnsupported if a capture forbids this call to this thread; the capture is
// lost then.
cudaError_t unsafe_call();
// cudaErrorStreamCaptureImplicit if the default stream would wait for a stream that is being
// captured; the capture is lost then.
cudaError_t implicit_dependency(cudaStream_t default_stream);
Stream* find_stream(cudaStream_t stream, cudaError_t& error);
// Runs the action now, or records it if the stream is being captured.
cudaError_t submit(cudaStream_t stream, cudaGraphNodeType type,
                   std::function<cudaError_t()> action);
cudaError_t launch_kernel(const void* function, const LaunchShape& shape, void** arguments,
                          cudaStream_t stream);
// The bytes of a launch's parameters; false, and why, if an argument is missing or unreadable.
bool copy_arguments(const Kernel& kernel, const Program& program, void** arguments,
                    std::vector<uint8_t>& out, std::string& why);
// False, and why, if another translation unit registered the same host function with parameters of
// other sizes.
bool agree_on_parameters(Runtime& runtime, Kernel& kernel, const Program& program, int device,
                         std::string& why);
// Bytes of dynamic shared memory that a launch on the device may ask for now.
size_t dynamic_shared_limit(const Device& device, const FunctionAttributes& attributes,
                            const Program& program);
int blocks_per_multiprocessor(const Device& device, const Program& program, int threads,
                              size_t dynamic_shared);
// Clusters of so many blocks that the device holds at once, each in one GPC.
uint32_t resident_clusters(const Device& device, int blocks_per_multiprocessor, int cluster_blocks);
// What is known of a launch before it runs.
FusednormEmulatorLaunch shape_of(const Launch& launch);
// Adds it to Runtime::launches when it is over.
void record(Runtime& runtime, const Launch& launch);
bool device_preset(int major, int minor, FusednormEmulatorDevice& out);

}  // namespace fusednorm::emulator
