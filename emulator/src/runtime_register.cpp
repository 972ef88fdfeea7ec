// SPDX-License-Identifier: Apache-2.0
// Registration of what nvcc embeds in a program: fat binaries, kernels and variables, before main
// and at exit.
#include <algorithm>

#include "runtime.h"

using namespace fusednorm::emulator;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  auto module = std::make_unique<RegisteredModule>();
  module->wrapper = wrapper;
  module->fatbin = read_fatbin(wrapper);
  runtime.modules.push_back(std::move(module));
  return reinterpret_cast<void**>(runtime.modules.back().get());
}

void __cudaRegisterFatBinaryEnd(void**) {}
char __cudaInitModule(void**) {
  return 1;
}

void __cudaUnregisterFatBinary(void** handle) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  auto* module = reinterpret_cast<RegisteredModule*>(handle);
  for (auto it = runtime.registrations.begin(); it != runtime.registrations.end();) {
    std::vector<Kernel*>& kernels = it->second;
    kernels.erase(std::remove_if(kernels.begin(), kernels.end(),
                                 [&](const Kernel* kernel) { return kernel->module == module; }),
                  kernels.end());
    if (kernels.empty()) {
      runtime.kernels_by_host.erase(it->first);
      it = runtime.registrations.erase(it);
    } else {
      runtime.kernels_by_host[it->first] = kernels.back();
      ++it;
    }
  }
  for (auto it = runtime.variables.begin(); it != runtime.variables.end();)
    it = it->second.module == module ? runtime.variables.erase(it) : std::next(it);
  for (const auto& [device, loaded] : module->loaded)
    for (const auto& [name, variable] : loaded->variables) runtime.memory.free(variable->address);
  auto of_module = [&](const std::unique_ptr<Kernel>& kernel) { return kernel->module == module; };
  for (const auto& kernel : runtime.kernels)
    if (of_module(kernel)) runtime.kernel_handles.erase(kernel.get());
  runtime.kernels.erase(std::remove_if(runtime.kernels.begin(), runtime.kernels.end(), of_module),
                        runtime.kernels.end());
  runtime.modules.erase(std::remove_if(runtime.modules.begin(), runtime.modules.end(),
                                       [&](const auto& one) { return one.get() == module; }),
                        runtime.modules.end());
}

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  auto kernel = std::make_unique<Kernel>();
  kernel->module = reinterpret_cast<RegisteredModule*>(handle);
  kernel->host = host;
  kernel->name = name;
  runtime.kernels_by_host[host] = kernel.get();
  runtime.registrations[host].push_back(kernel.get());
  runtime.kernel_handles.insert(kernel.get());
  runtime.kernels.push_back(std::move(kernel));
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t size, int,
                       int) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  runtime.variables[host] = {reinterpret_cast<RegisteredModule*>(handle), name, size};
}

cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* host) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  Kernel* kernel = runtime.kernel(host);
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  *out = reinterpret_cast<cudaKernel_t>(kernel);
  return cudaSuccess;
}
cudaError_t cudaGetKernel(cudaKernel_t* out, const void* host) {
  return result(__cudaGetKernel(out, host));
}
}
