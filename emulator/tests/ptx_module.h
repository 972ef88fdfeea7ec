// SPDX-License-Identifier: Apache-2.0
// Loads PTX text as nvcc would embed it, by building the fat binary by hand; for tests without
// nvcc.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*);
}

class PtxModule {
 public:
  struct Entry {
    std::string payload;
    uint16_t kind = 1;  // 1 PTX, 2 machine code
    uint32_t architecture = 90;
    uint64_t unpacked_bytes = 0;  // not 0: compressed
  };

  explicit PtxModule(const std::string& ptx) : PtxModule(std::vector<Entry>{{ptx}}) {}
  explicit PtxModule(const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) {
      std::string payload = entry.payload;
      payload.resize((payload.size() + 8) / 8 * 8, '\0');
      put<uint16_t>(entry.kind);
      put<uint16_t>(0x0101);
      put<uint32_t>(64);
      put<uint64_t>(payload.size());
      put<uint64_t>(0);
      put<uint32_t>(0);
      put<uint32_t>(entry.architecture);
      put<uint64_t>(0);
      put<uint64_t>(0);
      put<uint64_t>(0);
      put<uint64_t>(entry.unpacked_bytes);
      bytes_ += payload;
    }
    std::string header;
    std::swap(header, bytes_);
    put<uint32_t>(0xba55ed50);
    put<uint16_t>(1);
    put<uint16_t>(16);
    put<uint64_t>(header.size());
    bytes_ += header;
    wrapper_.magic = 0x466243b1;
    wrapper_.version = 1;
    wrapper_.data = bytes_.data();
    handle_ = __cudaRegisterFatBinary(&wrapper_);
  }
  PtxModule(const PtxModule&) = delete;
  ~PtxModule() { __cudaUnregisterFatBinary(handle_); }

  // Registers the kernel as the device side of a host function.
  void add(const char* kernel, const char* host) {
    __cudaRegisterFunction(handle_, host, nullptr, kernel, -1, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
  }
  // A host function of its own for the kernel.
  const char* host(const char* kernel) {
    names_.push_back(std::make_unique<std::string>(kernel));
    add(kernel, names_.back()->data());
    return names_.back()->data();
  }
  cudaError_t launch(const char* kernel, dim3 grid, dim3 block, std::vector<void*> arguments) {
    return cudaLaunchKernel(host(kernel), grid, block, arguments.data(), 0, nullptr);
  }
  cudaError_t launch_at(const char* host_function, std::vector<void*> arguments) {
    return cudaLaunchKernel(host_function, 1, 1, arguments.data(), 0, nullptr);
  }

 private:
  template <class T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  struct {
    int magic, version;
    const void* data;
    void* unused;
  } wrapper_{};
  std::string bytes_;
  void** handle_ = nullptr;
  std::vector<std::unique_ptr<std::string>> names_;
};
