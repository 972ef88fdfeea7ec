// SPDX-License-Identifier: Apache-2.0
// The arguments of a launch, as far as they can be checked: the runtime API hands over pointers
// without sizes, so what a pointer leads to must at least be readable, and every translation unit
// that brings the kernel must agree on its parameters.
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime.h"

namespace fusednorm::emulator {
namespace {

// Copies without a crash where nothing is mapped; false if it is not readable.
bool read_memory(const void* from, void* to, size_t bytes) {
  const iovec local{to, bytes}, remote{const_cast<void*>(from), bytes};
  const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (got == static_cast<ssize_t>(bytes)) return true;
  if (got >= 0 || errno == EFAULT) return false;
  std::memcpy(to, from, bytes);  // a sandbox forbids the call: do without
  return true;
}

std::string describe(const Kernel& kernel, size_t index, const Program& program) {
  return "launch of " + kernel.name + ": argument " + std::to_string(index) + " of " +
         std::to_string(program.parameters.size());
}

}  // namespace

bool copy_arguments(const Kernel& kernel, const Program& program, void** arguments,
                    std::vector<uint8_t>& out, std::string& why) {
  out.resize(program.parameter_bytes);
  for (size_t k = 0; k < program.parameters.size(); ++k) {
    const Program::Parameter& parameter = program.parameters[k];
    const void* from = nullptr;
    if (!arguments || !read_memory(arguments + k, &from, sizeof from) || !from) {
      why = describe(kernel, k, program) + " is missing: no pointer to it was given";
      return false;
    }
    if (!read_memory(from, out.data() + parameter.offset, parameter.bytes)) {
      why = describe(kernel, k, program) + " cannot be read: its " +
            std::to_string(parameter.bytes) +
            " bytes do not lie in memory of the host (each entry of the list must point to a value "
            "of the parameter's type; are there too few entries?)";
      return false;
    }
  }
  return true;
}

bool agree_on_parameters(Runtime& runtime, Kernel& kernel, const Program& program, int device,
                         std::string& why) {
  if (kernel.agreed) return true;
  for (Kernel* other : runtime.registrations[kernel.host]) {
    if (other == &kernel || other->name != kernel.name) continue;
    cudaError_t error = cudaSuccess;
    const Program* theirs = runtime.program(*other, device, error);
    if (!theirs) continue;  // it says itself why, when it is launched
    const auto &a = program.parameters, &b = theirs->parameters;
    for (size_t k = 0; k < std::max(a.size(), b.size()); ++k) {
      const uint32_t here = k < a.size() ? a[k].bytes : 0, there = k < b.size() ? b[k].bytes : 0;
      if (here == there) continue;
      why = describe(kernel, k, program) + " has " + std::to_string(here) + " bytes in one and " +
            std::to_string(there) +
            " in another translation unit that brings this kernel; the host code is the same for "
            "both: they must be compiled from the same declarations";
      return false;
    }
  }
  kernel.agreed = true;
  return true;
}

}  // namespace fusednorm::emulator
