// SPDX-License-Identifier: Apache-2.0
// Device memory of a subject, and the end of its launch.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace fusednorm::cost {

/// Holds what it happens to hold: a trace depends on no value.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) {
    if (cudaMalloc(&memory_, bytes) != cudaSuccess) memory_ = nullptr;
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { (void)cudaFree(memory_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
};

inline std::string finished() {
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

}  // namespace fusednorm::cost
