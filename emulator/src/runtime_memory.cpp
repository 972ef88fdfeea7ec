// SPDX-License-Identifier: Apache-2.0
// Allocation, copies, fills and symbols of the CUDA runtime API.
#include <algorithm>
#include <cstring>

#include "address_space.h"
#include "runtime.h"

namespace fusednorm::emulator {
namespace {

bool is_device_address(const void* pointer) {
  const uint64_t address = reinterpret_cast<uint64_t>(pointer);
  return address >= kDeviceMemory && address < kDeviceMemory + 16 * kDeviceMemorySize;
}

cudaError_t check_call() {
  if (const cudaError_t sticky = device_state()) return sticky;
  return unsafe_call();
}

// A host pointer to `bytes` at a host or device address; nullptr (and a report) if a device does
// not have them.
uint8_t* resolve(const void* pointer, size_t bytes, Allocation*& allocation, const char* what) {
  Runtime& runtime = Runtime::get();
  const uint64_t address = reinterpret_cast<uint64_t>(pointer);
  allocation = runtime.memory.find_live(address, bytes);
  if (allocation) return allocation->host + (address - allocation->address);
  if (!is_device_address(pointer)) return static_cast<uint8_t*>(const_cast<void*>(pointer));
  runtime.report(std::string("fusednorm emulator: ") + what + " of " + std::to_string(bytes) +
                 " bytes: " + runtime.memory.explain(address, bytes, current_device()));
  return nullptr;
}

void note_written(Allocation& allocation, uint64_t offset, uint64_t bytes) {
  allocation.mark_written(offset, bytes);
  if (!allocation.fully_written && allocation.written.all(0, allocation.bytes))
    allocation.fully_written = true;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  const bool to_device = is_device_address(to), from_device = is_device_address(from);
  const bool wrong = (kind == cudaMemcpyHostToDevice && from_device) ||
                     (kind == cudaMemcpyDeviceToHost && to_device) ||
                     (kind == cudaMemcpyHostToHost && (to_device || from_device)) ||
                     kind > cudaMemcpyDefault;
  if (wrong || !to || !from) {
    Runtime::get().report(
        "fusednorm emulator: cudaMemcpy whose kind does not fit its pointers (or a null pointer)");
    return cudaErrorInvalidValue;
  }
  Allocation *target = nullptr, *source = nullptr;
  uint8_t* destination = resolve(to, bytes, target, "the destination of a copy");
  const uint8_t* origin = resolve(from, bytes, source, "the source of a copy");
  if (!destination || !origin) return cudaErrorInvalidValue;
  if ((kind == cudaMemcpyHostToDevice && !target) || (kind == cudaMemcpyDeviceToHost && !source)) {
    Runtime::get().report("fusednorm emulator: cudaMemcpy whose device pointer is a host pointer");
    return cudaErrorInvalidValue;
  }
  std::memmove(destination, origin, bytes);
  if (target) {
    const uint64_t offset = reinterpret_cast<uint64_t>(to) - target->address;
    if (!source || source->fully_written) {
      note_written(*target, offset, bytes);
    } else {
      const uint64_t start = reinterpret_cast<uint64_t>(from) - source->address;
      for (uint64_t k = 0; k < bytes; ++k)
        if (source->written.all(start + k, start + k + 1)) target->mark_written(offset + k, 1);
    }
  }
  return cudaSuccess;
}

cudaError_t fill(void* to, int value, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  Allocation* target = nullptr;
  uint8_t* destination = resolve(to, bytes, target, "cudaMemset");
  if (!destination || !target) return cudaErrorInvalidValue;
  std::memset(destination, value, bytes);
  note_written(*target, reinterpret_cast<uint64_t>(to) - target->address, bytes);
  return cudaSuccess;
}

cudaError_t allocate(void** out, size_t bytes, MemoryKind kind) {
  if (!out) return cudaErrorInvalidValue;
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  Runtime& runtime = Runtime::get();
  const int device = current_device();
  std::lock_guard<std::mutex> lock(runtime.device(device).mutex);
  if (kind == MemoryKind::Device &&
      runtime.memory.used(device) + bytes > runtime.device(device).config.memory_bytes)
    return cudaErrorMemoryAllocation;
  Allocation* allocation = runtime.memory.allocate(device, bytes, kind);
  if (!allocation) return cudaErrorMemoryAllocation;
  *out = reinterpret_cast<void*>(allocation->address);
  return cudaSuccess;
}

cudaError_t release(void* pointer) {
  if (!pointer) return cudaSuccess;
  Runtime& runtime = Runtime::get();
  Allocation* allocation = runtime.memory.find(reinterpret_cast<uint64_t>(pointer));
  if (!allocation || allocation->address != reinterpret_cast<uint64_t>(pointer) ||
      allocation->freed || allocation->kind == MemoryKind::Variable ||
      allocation->kind == MemoryKind::Constant ||
      static_cast<size_t>(allocation->device) >= runtime.devices.size()) {
    runtime.report(
        "fusednorm emulator: free of a pointer that is not the start of a live allocation");
    return cudaErrorInvalidValue;
  }
  std::lock_guard<std::mutex> lock(runtime.device(allocation->device).mutex);
  runtime.memory.free(reinterpret_cast<uint64_t>(pointer));
  return cudaSuccess;
}

// The variable behind a symbol on the current device.
cudaError_t find_symbol(const void* symbol, Allocation*& out) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  const auto found = runtime.variables.find(symbol);
  if (found == runtime.variables.end()) return cudaErrorInvalidSymbol;
  LoadedModule& loaded = runtime.load(*found->second.module, current_device());
  if (loaded.error != cudaSuccess) return loaded.error;
  const auto variable = loaded.variables.find(found->second.name);
  if (variable == loaded.variables.end()) return cudaErrorInvalidSymbol;
  out = variable->second;
  return cudaSuccess;
}

}  // namespace
}  // namespace fusednorm::emulator

using namespace fusednorm::emulator;

extern "C" {

cudaError_t cudaMalloc(void** out, size_t bytes) {
  if (const cudaError_t error = check_call()) return result(error);
  return result(allocate(out, bytes, MemoryKind::Device));
}
cudaError_t cudaFree(void* pointer) {
  if (const cudaError_t error = check_call()) return result(error);
  return result(release(pointer));
}
cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t) {
  if (const cudaError_t error = device_state()) return result(error);
  return result(allocate(out, bytes, MemoryKind::Device));
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) {
  if (const cudaError_t error = device_state()) return result(error);
  return result(release(pointer));
}
cudaError_t cudaMallocHost(void** out, size_t bytes) {
  if (const cudaError_t error = check_call()) return result(error);
  return result(allocate(out, bytes, MemoryKind::Host));
}
cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) {
  return cudaMallocHost(out, bytes);
}
cudaError_t cudaFreeHost(void* pointer) {
  return cudaFree(pointer);
}
cudaError_t cudaMallocManaged(void** out, size_t bytes, unsigned) {
  if (const cudaError_t error = check_call()) return result(error);
  return result(allocate(out, bytes, MemoryKind::Managed));
}
cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return cudaMalloc(out, *pitch * height);
}
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  if (!pointer || !bytes) return result(cudaErrorInvalidValue);
  if (Runtime::get().memory.find_live(reinterpret_cast<uint64_t>(pointer), 1))
    return result(cudaErrorHostMemoryAlreadyRegistered);
  Runtime::get().memory.adopt_host(pointer, bytes);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* pointer) {
  return result(Runtime::get().memory.free(reinterpret_cast<uint64_t>(pointer))
                    ? cudaSuccess
                    : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaHostGetDevicePointer(void** out, void* host, unsigned) {
  if (!Runtime::get().memory.find_live(reinterpret_cast<uint64_t>(host), 1))
    return result(cudaErrorInvalidValue);
  *out = host;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = check_call()) return result(error);
  return result(copy(to, from, bytes, kind));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (const cudaError_t error = device_state()) return result(error);
  return result(
      submit(stream, cudaGraphNodeTypeMemcpy, [=] { return copy(to, from, bytes, kind); }));
}
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  if (const cudaError_t error = device_state()) return result(error);
  if (width > to_pitch || width > from_pitch) return result(cudaErrorInvalidPitchValue);
  return result(submit(stream, cudaGraphNodeTypeMemcpy, [=] {
    for (size_t row = 0; row < height; ++row) {
      const cudaError_t error =
          copy(static_cast<char*>(to) + row * to_pitch,
               static_cast<const char*>(from) + row * from_pitch, width, kind);
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }));
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  if (const cudaError_t error = check_call()) return result(error);
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  if (const cudaError_t error = check_call()) return result(error);
  return result(fill(to, value, bytes));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = device_state()) return result(error);
  return result(submit(stream, cudaGraphNodeTypeMemset, [=] { return fill(to, value, bytes); }));
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  if (const cudaError_t error = device_state()) return result(error);
  return result(submit(stream, cudaGraphNodeTypeMemset, [=] {
    for (size_t row = 0; row < height; ++row)
      if (const cudaError_t error = fill(static_cast<char*>(to) + row * pitch, value, width))
        return error;
    return cudaSuccess;
  }));
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset2DAsync(to, pitch, value, width, height, nullptr);
}

cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  Allocation* variable = nullptr;
  if (const cudaError_t error = find_symbol(symbol, variable)) return result(error);
  *out = reinterpret_cast<void*>(variable->address);
  return cudaSuccess;
}
cudaError_t cudaGetSymbolSize(size_t* out, const void* symbol) {
  Allocation* variable = nullptr;
  if (const cudaError_t error = find_symbol(symbol, variable)) return result(error);
  *out = variable->bytes;
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  void* address = nullptr;
  if (const cudaError_t error = cudaGetSymbolAddress(&address, symbol)) return error;
  return cudaMemcpy(static_cast<char*>(address) + offset, from, bytes, kind);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  void* address = nullptr;
  if (const cudaError_t error = cudaGetSymbolAddress(&address, symbol)) return error;
  return cudaMemcpy(to, static_cast<char*>(address) + offset, bytes, kind);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  void* address = nullptr;
  if (const cudaError_t error = cudaGetSymbolAddress(&address, symbol)) return error;
  return cudaMemcpyAsync(static_cast<char*>(address) + offset, from, bytes, kind, stream);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  void* address = nullptr;
  if (const cudaError_t error = cudaGetSymbolAddress(&address, symbol)) return error;
  return cudaMemcpyAsync(to, static_cast<char*>(address) + offset, bytes, kind, stream);
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  Runtime& runtime = Runtime::get();
  const int device = current_device();
  *total = runtime.device(device).config.memory_bytes;
  *available = *total - std::min<size_t>(*total, runtime.memory.used(device));
  return result(device_state());
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  if (!out) return result(cudaErrorInvalidValue);
  Runtime& runtime = Runtime::get();
  const Allocation* allocation = runtime.memory.find_live(reinterpret_cast<uint64_t>(pointer), 1);
  *out = {};
  out->device = -2;
  out->type = cudaMemoryTypeUnregistered;
  if (!allocation) {
    if (is_device_address(pointer)) return result(cudaErrorInvalidValue);
    out->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  out->device = allocation->device;
  out->devicePointer = const_cast<void*>(pointer);
  out->type = allocation->kind == MemoryKind::Host      ? cudaMemoryTypeHost
              : allocation->kind == MemoryKind::Managed ? cudaMemoryTypeManaged
                                                        : cudaMemoryTypeDevice;
  if (out->type != cudaMemoryTypeDevice) out->hostPointer = const_cast<void*>(pointer);
  return cudaSuccess;
}
}
