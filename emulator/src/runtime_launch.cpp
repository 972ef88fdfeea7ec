// SPDX-License-Identifier: Apache-2.0
// Kernel launches: limits, parameters, running, counters.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "runtime.h"

namespace fusednorm::emulator {
namespace {

// Why a device would refuse the launch; the sentence goes into the report.
cudaError_t check_limits(const Device& device, const FunctionAttributes& attributes,
                         const Program& program, const LaunchShape& shape, std::string& why) {
  const Function& function = *program.function;
  const uint64_t threads = uint64_t{shape.block.x} * shape.block.y * shape.block.z;
  auto text = [](const dim3& d) {
    return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
  };
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0 || shape.grid.x > 2147483647u ||
      shape.grid.y > 65535 || shape.grid.z > 65535) {
    why = "a grid of " + text(shape.grid) +
          " blocks: each must be at least 1 and at most 2147483647 x 65535 x 65535";
    return cudaErrorInvalidConfiguration;
  }
  if (threads == 0 || threads > 1024 || shape.block.x > 1024 || shape.block.y > 1024 ||
      shape.block.z > 64) {
    why = "a block of " + text(shape.block) +
          " threads: at most 1024 in all, 1024 x 1024 x 64 by direction";
    return cudaErrorInvalidConfiguration;
  }
  if (function.max_threads && threads > function.max_threads) {
    why = "a block of " + std::to_string(threads) +
          " threads, but __launch_bounds__ promised at most " +
          std::to_string(function.max_threads);
    return cudaErrorLaunchOutOfResources;
  }
  const uint32_t* required = function.required_threads;
  if (required[0] && (shape.block.x != required[0] || shape.block.y != required[1] ||
                      shape.block.z != required[2])) {
    why = "a block of " + text(shape.block) +
          " threads, but the kernel requires another size (.reqntid)";
    return cudaErrorInvalidValue;
  }
  if (function.max_registers &&
      uint64_t{function.max_registers} * ((threads + 31) / 32 * 32) > 65536) {
    why = "a block of " + std::to_string(threads) + " threads with " +
          std::to_string(function.max_registers) + " registers each needs more than 65536";
    return cudaErrorLaunchOutOfResources;
  }
  const size_t allowed = dynamic_shared_limit(device, attributes, program);
  const size_t total = shape.dynamic_shared + program.static_shared_bytes;
  if (shape.dynamic_shared > allowed || total > device.config.shared_per_block_optin) {
    why = std::to_string(shape.dynamic_shared) + " bytes of dynamic shared memory (and " +
          std::to_string(program.static_shared_bytes) + " static): the kernel may use " +
          std::to_string(allowed) +
          (attributes.max_dynamic_shared < 0
               ? " (cudaFuncSetAttribute on this device raises it)"
               : " (what cudaFuncSetAttribute set last on this device, from any thread)") +
          ", the device has " + std::to_string(device.config.shared_per_block_optin) + " a block";
    return cudaErrorInvalidValue;
  }
  if (shape.has_cluster) {
    const uint32_t blocks = shape.cluster.x * shape.cluster.y * shape.cluster.z;
    const uint32_t most = attributes.allows_large_clusters ? 16 : 8;
    if (device.config.major < 9) {
      why = "clusters need compute capability 9.0";
      return cudaErrorNotSupported;
    }
    if (blocks == 0 || blocks > most || shape.grid.x % shape.cluster.x ||
        shape.grid.y % shape.cluster.y || shape.grid.z % shape.cluster.z) {
      why = "clusters of " + text(shape.cluster) + " blocks in a grid of " + text(shape.grid) +
            ": the grid must be a multiple, and at most " + std::to_string(most) +
            " blocks may form one";
      return cudaErrorInvalidClusterSize;
    }
    const int each = blocks_per_multiprocessor(device, program, int(threads), shape.dynamic_shared);
    if (resident_clusters(device, each, int(blocks)) == 0) {
      why = "no GPC of the device can hold a cluster of " + std::to_string(blocks) + " blocks, " +
            std::to_string(each) + " of them a multiprocessor";
      return cudaErrorInvalidClusterSize;
    }
  }
  if (shape.programmatic && device.config.major < 9) {
    why = "programmatic dependent launch needs compute capability 9.0";
    return cudaErrorNotSupported;
  }
  if (shape.cooperative) {
    const int size = int(shape.cluster.x * shape.cluster.y * shape.cluster.z);
    const int each = blocks_per_multiprocessor(device, program, int(threads), shape.dynamic_shared);
    const uint64_t resident = uint64_t{resident_clusters(device, each, size)} * uint64_t(size);
    const uint64_t blocks = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
    if (blocks > resident) {
      why = "a cooperative launch of " + std::to_string(blocks) + " blocks, but only " +
            std::to_string(resident) + " are resident at once";
      return cudaErrorCooperativeLaunchTooLarge;
    }
  }
  return cudaSuccess;
}

// The launches that need not be over when a programmatic dependent launch starts: the one before it
// in the stream, and those before that one if it let others start without having waited.
std::vector<std::shared_ptr<const EarlierLaunch>> unfinished_before(Runtime& runtime,
                                                                    const LastLaunch& last) {
  auto earlier = std::make_shared<EarlierLaunch>();
  earlier->kernel = last.kernel;
  earlier->touched = runtime.memory.take_marks(last.id);
  std::vector<std::shared_ptr<const EarlierLaunch>> all;
  if (last.triggered_early) all = last.unfinished;
  all.push_back(std::move(earlier));
  return all;
}

cudaError_t execute(const Program& program, int device_index, const LaunchShape& shape,
                    const std::vector<uint8_t>& parameters, cudaStream_t stream) {
  Runtime& runtime = Runtime::get();
  Device& device = runtime.device(device_index);
  std::lock_guard<std::mutex> device_lock(device.mutex);
  if (device.sticky != cudaSuccess) return device.sticky;
  Launch launch;
  launch.program = &program;
  launch.memory = &runtime.memory;
  launch.device = device_index;
  launch.sm_count = static_cast<uint32_t>(device.config.multiprocessors);
  const dim3* const sizes[3] = {&shape.grid, &shape.block, &shape.cluster};
  uint32_t* const targets[3] = {launch.grid, launch.block, launch.cluster};
  for (int k = 0; k < 3; ++k) {
    targets[k][0] = sizes[k]->x;
    targets[k][1] = sizes[k]->y;
    targets[k][2] = sizes[k]->z;
  }
  launch.explicit_cluster = shape.has_cluster;
  launch.cooperative = shape.cooperative;
  launch.programmatic = shape.programmatic;
  launch.dynamic_shared_bytes = static_cast<uint32_t>(shape.dynamic_shared);
  launch.parameters = parameters;
  const int resident = std::max(
      1, blocks_per_multiprocessor(device, program, int(launch.threads()), shape.dynamic_shared));
  launch.resident_blocks = static_cast<uint32_t>(resident);
  launch.resident_clusters =
      std::max(1u, resident_clusters(device, resident, int(launch.cluster_blocks())));
  if (shape.cooperative) {
    if (!device.grid_workspace) {
      Allocation* workspace = runtime.memory.allocate(device_index, 64, MemoryKind::Variable);
      workspace->fully_written = true;
      workspace->name = "the workspace of grid.sync";
      device.grid_workspace = workspace->address;
    }
    launch.grid_workspace = device.grid_workspace;
  }
  {
    std::lock_guard<std::mutex> lock(runtime.mutex);
    launch.id = runtime.next_launch++;
    launch.seed = runtime.seed;
    launch.checks = runtime.checks;
    launch.load_latency = runtime.load_latency;
    if (runtime.choice) {
      launch.trace = std::make_shared<Trace>();
      launch.choice = [shape = shape_of(launch), choice = runtime.choice,
                       context = runtime.choice_context](uint64_t cluster) {
        return choice(&shape, cluster, context);
      };
    }
    const auto last = runtime.last_launches.find({device_index, stream});
    if (shape.programmatic && last != runtime.last_launches.end())
      launch.unfinished = unfinished_before(runtime, last->second);
    launch.host_threads = runtime.host_threads ? runtime.host_threads
                                               : std::max(1u, std::thread::hardware_concurrency());
  }
  run_launch(launch);
  std::lock_guard<std::mutex> lock(runtime.mutex);
  record(runtime, launch);
  runtime.last_launches[{device_index, stream}] = {launch.id, program.name, launch.triggered_early,
                                                   launch.unfinished};
  if (launch.fault) {
    device.sticky = static_cast<cudaError_t>(launch.fault->error);
    runtime.report(launch.fault_report);
  }
  return cudaSuccess;  // as on a device, the error shows at the next call
}

struct CallConfiguration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<CallConfiguration> call_configurations;

}  // namespace

size_t dynamic_shared_limit(const Device& device, const FunctionAttributes& attributes,
                            const Program& program) {
  if (attributes.max_dynamic_shared >= 0) return static_cast<size_t>(attributes.max_dynamic_shared);
  const size_t all = device.config.shared_per_block;
  return all - std::min<size_t>(all, program.static_shared_bytes);
}

cudaError_t launch_kernel(const void* function, const LaunchShape& requested, void** arguments,
                          cudaStream_t stream) {
  Runtime& runtime = Runtime::get();
  if (const cudaError_t sticky = device_state()) return result(sticky);
  cudaError_t error = cudaSuccess;
  const Stream* where = find_stream(stream, error);
  if (error != cudaSuccess) return result(error);
  const int device_index = current_device();
  LaunchShape shape = requested;
  const Program* program = nullptr;
  std::vector<uint8_t> parameters;
  {
    std::lock_guard<std::mutex> lock(runtime.mutex);
    if (where && where->device != device_index) {
      runtime.report("fusednorm emulator: the stream belongs to device " +
                     std::to_string(where->device) + ", but the current device is " +
                     std::to_string(device_index));
      return result(cudaErrorInvalidResourceHandle);
    }
    Kernel* kernel = runtime.kernel(function);
    if (!kernel) {
      runtime.report(
          "fusednorm emulator: launch of an unknown kernel: its host function was never "
          "registered; compile it with nvcc, and link the object that nvcc made (is the pointer "
          "that of a __global__ function?)");
      return result(cudaErrorInvalidDeviceFunction);
    }
    program = runtime.program(*kernel, device_index, error);
    if (!program) return result(error);
    const uint32_t* required = program->function->required_cluster;
    if (required[0] && !shape.has_cluster) {
      shape.cluster = dim3(required[0], required[1], required[2]);
      shape.has_cluster = true;
    }
    std::string why;
    error = check_limits(runtime.device(device_index), kernel->attributes[device_index], *program,
                         shape, why);
    if (error != cudaSuccess) {
      runtime.report("fusednorm emulator: launch of " + kernel->name + " refused: " + why);
      return result(error);
    }
    if (!agree_on_parameters(runtime, *kernel, *program, device_index, why) ||
        !copy_arguments(*kernel, *program, arguments, parameters, why)) {
      runtime.report("fusednorm emulator: " + why);
      return result(cudaErrorInvalidValue);
    }
  }
  return result(submit(stream, cudaGraphNodeTypeKernel,
                       [=] { return execute(*program, device_index, shape, parameters, stream); }));
}

}  // namespace fusednorm::emulator

using namespace fusednorm::emulator;

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     struct CUstream_st* stream) {
  call_configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (call_configurations.empty()) return cudaErrorMissingConfiguration;
  const CallConfiguration& top = call_configurations.back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  call_configurations.pop_back();
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
  LaunchShape shape;
  shape.grid = grid;
  shape.block = block;
  shape.dynamic_shared = shared;
  return launch_kernel(function, shape, arguments, stream);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, arguments, shared,
                          stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t shared, cudaStream_t stream) {
  LaunchShape shape;
  shape.grid = grid;
  shape.block = block;
  shape.dynamic_shared = shared;
  shape.cooperative = true;
  return launch_kernel(function, shape, arguments, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  if (!config) return result(cudaErrorInvalidValue);
  LaunchShape shape;
  shape.grid = config->gridDim;
  shape.block = config->blockDim;
  shape.dynamic_shared = config->dynamicSmemBytes;
  for (unsigned k = 0; k < config->numAttrs; ++k) {
    const cudaLaunchAttribute& attribute = config->attrs[k];
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      shape.cluster =
          dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z);
      shape.has_cluster = true;
    } else if (attribute.id == cudaLaunchAttributeCooperative) {
      shape.cooperative = attribute.val.cooperative != 0;
    } else if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      shape.programmatic = attribute.val.programmaticStreamSerializationAllowed != 0;
    }
    // The others (priorities, policies) change when things run, not what they do.
  }
  return launch_kernel(function, shape, arguments, config->stream);
}
}
