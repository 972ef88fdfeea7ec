// SPDX-License-Identifier: Apache-2.0
// Where the runtime meets the driver: its functions by name, and a device's place on the bus.
#include <dlfcn.h>

#include <cstdio>

#include "runtime.h"

using namespace fusednorm::emulator;

extern "C" {

// Found are the functions of the emulated libcuda.so.1 (emulator/driver), if it has been loaded.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  if (!symbol || !function) return result(cudaErrorInvalidValue);
  *function = nullptr;
  if (void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
    *function = dlsym(driver, symbol);
    dlclose(driver);
  }
  if (status)
    *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* out, int bytes, int device) {
  if (!out || bytes < 13) return result(cudaErrorInvalidValue);
  if (device < 0 || static_cast<size_t>(device) >= Runtime::get().devices.size())
    return result(cudaErrorInvalidDevice);
  std::snprintf(out, static_cast<size_t>(bytes), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}
}
