// SPDX-License-Identifier: Apache-2.0
// State behind the CUDA runtime API: configuration, errors, modules and kernels as they are first
// used.
#include "runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "form.h"

namespace fusednorm::emulator {
namespace {

thread_local int thread_device = 0;
thread_local cudaError_t thread_error = cudaSuccess;

struct Preset {
  int capability, multiprocessors;
  size_t optin_kb, per_multiprocessor_kb, l2_mb;
  int threads, blocks;
  struct {
    int count, multiprocessors;
  } gpcs[2];  // so many GPCs of one size, so many of another
};
// Public figures: T4, A100, RTX 3090-class, L40-class, H100, B200, B300, Thor, RTX 5090, GB10.
//
// GPCs matter to clusters only, so from 9.0 on. Known are the totals and, for H100, that GPCs of 16
// and of 18 occur (the full chip has eight of 18); which multiprocessors are switched off differs
// from chip to chip. All else is assumed: how many of each there are, and the GPCs of B200, B300,
// Thor, RTX 5090 (full chip: twelve of 16) and GB10.
constexpr Preset kPresets[] = {{75, 40, 64, 64, 4, 1024, 16, {}},
                               {80, 108, 163, 164, 40, 2048, 32, {}},
                               {86, 84, 99, 100, 6, 1536, 16, {}},
                               {89, 142, 99, 100, 96, 1536, 24, {}},
                               {90, 132, 227, 228, 50, 2048, 32, {{6, 16}, {2, 18}}},
                               {100, 148, 227, 228, 126, 2048, 32, {{6, 18}, {2, 20}}},
                               {103, 148, 227, 228, 126, 2048, 32, {{6, 18}, {2, 20}}},
                               {110, 20, 227, 228, 32, 1536, 24, {{1, 8}, {2, 6}}},
                               {120, 170, 99, 100, 96, 1536, 24, {{8, 16}, {3, 14}}},
                               {121, 48, 99, 100, 24, 1536, 24, {{4, 12}}}};

std::string environment(const char* name) {
  const char* value = std::getenv((std::string("FUSEDNORM_EMULATOR_") + name).c_str());
  return value ? value : "";
}

uint64_t environment_number(const char* name, uint64_t otherwise) {
  const std::string value = environment(name);
  if (value.empty()) return otherwise;
  char* end = nullptr;
  const uint64_t number = std::strtoull(value.c_str(), &end, 0);
  if (*end) {
    std::fprintf(stderr, "fusednorm emulator: FUSEDNORM_EMULATOR_%s=%s is not a number; ignored\n",
                 name, value.c_str());
    return otherwise;
  }
  return number;
}

// "16,16,18": the GPCs, and the number of multiprocessors with them.
void gpcs_from_environment(FusednormEmulatorDevice& config) {
  const std::string value = environment("GPCS");
  if (value.empty()) return;
  int gpcs[16] = {}, total = 0, count = 0;
  const char* at = value.c_str();
  for (;; ++at) {
    char* end = nullptr;
    const long size = std::strtol(at, &end, 10);
    if (end == at || size < 1 || size > 1024 || count == 16 || (*end != ',' && *end != 0)) {
      std::fprintf(stderr,
                   "fusednorm emulator: FUSEDNORM_EMULATOR_GPCS=%s is not a list of up to 16 "
                   "counts of multiprocessors such as 16,16,18; ignored\n",
                   value.c_str());
      return;
    }
    gpcs[count++] = static_cast<int>(size);
    total += static_cast<int>(size);
    at = end;
    if (*at == 0) break;
  }
  std::copy(gpcs, gpcs + 16, config.gpcs);
  config.multiprocessors = total;
}

Checks checks_from_environment() {
  Checks checks;
  const std::string value = environment("CHECKS");
  if (value.empty() || value == "default") return checks;
  checks = {value == "all", value == "all", value == "all"};
  if (value == "all" || value == "none") return checks;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find(',', begin), value.size());
    const std::string name = value.substr(begin, end - begin);
    if (name == "uninitialised")
      checks.uninitialised = true;
    else if (name == "shared-races")
      checks.shared_races = true;
    else if (name == "global-races")
      checks.global_races = true;
    else
      std::fprintf(stderr,
                   "fusednorm emulator: FUSEDNORM_EMULATOR_CHECKS names '%s'; known: default, all, "
                   "none, uninitialised, shared-races, global-races\n",
                   name.c_str());
    begin = end + 1;
  }
  return checks;
}

}  // namespace

bool device_preset(int major, int minor, FusednormEmulatorDevice& out) {
  const Preset* best = nullptr;
  for (const Preset& preset : kPresets)
    if (preset.capability <= major * 10 + minor) best = &preset;
  if (!best) return false;
  out = {};
  out.major = major;
  out.minor = minor;
  out.multiprocessors = best->multiprocessors;
  out.shared_per_block = 48 << 10;
  out.shared_per_block_optin = best->optin_kb << 10;
  out.shared_per_multiprocessor = best->per_multiprocessor_kb << 10;
  out.l2_bytes = best->l2_mb << 20;
  out.memory_bytes = size_t{16} << 30;
  out.threads_per_multiprocessor = best->threads;
  out.blocks_per_multiprocessor = best->blocks;
  int* gpc = out.gpcs;
  for (const auto& some : best->gpcs) gpc = std::fill_n(gpc, some.count, some.multiprocessors);
  return true;
}

Runtime& Runtime::get() {
  static Runtime* const runtime =
      new Runtime();  // never destroyed: programs call cudaFree from static destructors
  return *runtime;
}

Runtime::Runtime() {
#ifdef __AVX2__
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::fprintf(stderr,
                 "fusednorm emulator: built for AVX2 and FMA, which this CPU lacks; configure it "
                 "again on this machine\n");
    std::abort();
  }
#endif
  const std::string capability = environment("COMPUTE_CAPABILITY");
  int major = 9, minor = 0;
  if (!capability.empty() && std::sscanf(capability.c_str(), "%d.%d", &major, &minor) < 1)
    std::fprintf(stderr,
                 "fusednorm emulator: FUSEDNORM_EMULATOR_COMPUTE_CAPABILITY=%s is not of the form "
                 "9.0; ignored\n",
                 capability.c_str());
  FusednormEmulatorDevice config;
  if (!device_preset(major, minor, config)) {
    std::fprintf(stderr, "fusednorm emulator: compute capability %d.%d is below 7.5; playing 7.5\n",
                 major, minor);
    device_preset(7, 5, config);
  }
  config.multiprocessors = static_cast<int>(
      environment_number("MULTIPROCESSORS", static_cast<uint64_t>(config.multiprocessors)));
  gpcs_from_environment(config);
  config.shared_per_block_optin =
      environment_number("SHARED_MEMORY", config.shared_per_block_optin);
  config.shared_per_multiprocessor =
      std::max<size_t>(config.shared_per_multiprocessor, config.shared_per_block_optin + 1024);
  if (!environment("SHARED_MEMORY").empty())
    config.shared_per_multiprocessor = config.shared_per_block_optin + 1024;
  config.l2_bytes = environment_number("L2", config.l2_bytes);
  config.memory_bytes = environment_number("MEMORY", config.memory_bytes);
  const uint64_t count = std::min<uint64_t>(environment_number("DEVICES", 1), 16);
  set_devices(std::vector<FusednormEmulatorDevice>(count ? count : 1, config));
  seed = environment_number("SEED", 0);
  host_threads = static_cast<unsigned>(environment_number("THREADS", 0));
  load_latency = static_cast<unsigned>(environment_number("LOAD_LATENCY", load_latency));
  print_counters = environment_number("COUNTERS", 0) != 0;
  newest_ptx = static_cast<int>(environment_number("NEWEST_PTX", 999));
  checks = checks_from_environment();
}

void Runtime::set_devices(std::vector<FusednormEmulatorDevice> configs) {
  devices.clear();
  for (const auto& module : modules) {
    for (auto& [device, loaded] : module->loaded)
      if (loaded && loaded->error == cudaSuccess && loaded->variables.empty())
        module->spare.push_back(std::move(loaded));
    module->loaded.clear();
  }
  for (const auto& kernel : kernels) kernel->attributes.clear();
  for (const FusednormEmulatorDevice& config : configs) {
    devices.push_back(std::make_unique<Device>());
    devices.back()->config = config;
  }
}

void Runtime::report(const std::string& text) {
  last_report = text;
  if (print_reports) {
    std::fflush(stdout);
    std::fwrite(text.data(), 1, text.size(), stderr);
    if (text.empty() || text.back() != '\n') std::fputc('\n', stderr);
  }
}

namespace {

// A module that a device of the same kind had, or null.
std::unique_ptr<LoadedModule> take_spare(RegisteredModule& registered, const FatbinEntry* entry,
                                         uint32_t shared_base) {
  const auto found = std::find_if(
      registered.spare.begin(), registered.spare.end(),
      [&](const auto& one) { return one->entry == entry && one->shared_base == shared_base; });
  if (found == registered.spare.end()) return nullptr;
  std::unique_ptr<LoadedModule> module = std::move(*found);
  registered.spare.erase(found);
  // The device may be of another capability with the same PTX: ptxas is asked anew.
  for (auto& [name, program] : module->programs) program.registers = -1;
  return module;
}

}  // namespace

LoadedModule& Runtime::load(RegisteredModule& registered, int device_index) {
  std::unique_ptr<LoadedModule>& slot = registered.loaded[device_index];
  if (slot) return *slot;
  std::string why;
  const uint32_t shared_base = device(device_index).shared_base();
  const FatbinEntry* entry =
      choose_ptx(registered.fatbin, device(device_index).capability(), newest_ptx, why);
  slot = take_spare(registered, entry, shared_base);
  if (slot) return *slot;
  slot = std::make_unique<LoadedModule>();
  LoadedModule& loaded = *slot;
  loaded.why = why;
  loaded.entry = entry;
  loaded.shared_base = shared_base;
  if (!entry) {
    loaded.error = cudaErrorNoKernelImageForDevice;
    report("fusednorm emulator: " + loaded.why);
    return loaded;
  }
  try {
    loaded.module = parse_ptx(entry->text);
    for (const Variable& variable : loaded.module.variables) {
      if (variable.space != Space::Global && variable.space != Space::Const) continue;
      if (variable.is_extern) continue;
      const MemoryKind kind =
          variable.space == Space::Const ? MemoryKind::Constant : MemoryKind::Variable;
      Allocation* allocation = memory.allocate(device_index, variable.bytes, kind,
                                               std::max<uint64_t>(variable.align, 32));
      if (!allocation) throw PtxError(0, "no memory for the variable " + variable.name);
      allocation->name = variable.name;
      allocation->fully_written = true;  // variables start as zeros
      if (!variable.initial.empty())
        std::memcpy(allocation->host, variable.initial.data(), variable.bytes);
      loaded.variables[variable.name] = allocation;
    }
    const SymbolResolver resolve = [&](const std::string& name) -> uint64_t {
      const auto found = loaded.variables.find(name);
      return found == loaded.variables.end() ? 0 : found->second->address;
    };
    for (const Variable& variable : loaded.module.variables)
      for (const Variable::Address& address : variable.addresses) {
        const uint64_t value = resolve(address.symbol) + static_cast<uint64_t>(address.addend);
        if (!resolve(address.symbol))
          throw PtxError(0, "the initial value of " + variable.name + " names the unknown symbol " +
                                address.symbol);
        std::memcpy(loaded.variables[variable.name]->host + address.offset, &value, sizeof value);
      }
    for (const auto& [name, function] : loaded.module.functions)
      if (function.is_entry && !function.is_declaration)
        loaded.programs.emplace(name,
                                decode_program(loaded.module, function, resolve, shared_base));
  } catch (const UnsupportedForm& error) {
    loaded.error = cudaErrorInvalidPtx;
    loaded.why = std::string(error.what()) +
                 "; compile for an older architecture (-gencode arch=compute_75,code=compute_75 "
                 "avoids what newer ones bring), or teach it to emulator/src";
    report("fusednorm emulator: a module (target " + loaded.module.target +
           ") does not load: " + loaded.why);
  } catch (const PtxError& error) {
    loaded.error = cudaErrorInvalidPtx;
    loaded.why = std::string(error.what()) +
                 "; the text must be what nvcc made, untouched: " + kCompileAdvice;
    report("fusednorm emulator: a module (target " + loaded.module.target +
           ") does not load: " + loaded.why);
  }
  return loaded;
}

Kernel* Runtime::kernel(const void* function) {
  const auto found = kernels_by_host.find(function);
  if (found != kernels_by_host.end()) return found->second;
  if (kernel_handles.count(function))
    return const_cast<Kernel*>(static_cast<const Kernel*>(function));
  return nullptr;
}

const Program* Runtime::program(Kernel& kernel, int device_index, cudaError_t& error) {
  LoadedModule& loaded = load(*kernel.module, device_index);
  error = loaded.error;
  if (error != cudaSuccess) return nullptr;
  const auto found = loaded.programs.find(kernel.name);
  if (found == loaded.programs.end()) {
    error = cudaErrorInvalidDeviceFunction;
    std::string names;
    for (const auto& [name, program] : loaded.programs) names += " " + name;
    report("fusednorm emulator: the module has no kernel " + kernel.name + " (it has:" + names +
           "); host and device code must come from one run of nvcc, without -rdc=true");
    return nullptr;
  }
  Program& program = found->second;
  if (program.registers < 0)
    program.registers = registers ? registers(kernel.name.c_str(),
                                              device(device_index).capability(), registers_context)
                                  : 0;
  return &program;
}

int current_device() {
  return thread_device;
}
void set_current_device(int device) {
  thread_device = device;
}

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) thread_error = error;
  return error;
}

cudaError_t device_state() {
  Runtime& runtime = Runtime::get();
  if (static_cast<size_t>(thread_device) >= runtime.devices.size()) return cudaErrorInvalidDevice;
  return runtime.device(thread_device).sticky;
}

}  // namespace fusednorm::emulator

using namespace fusednorm::emulator;

extern "C" {

cudaError_t cudaGetLastError(void) {
  const cudaError_t sticky = device_state();
  const cudaError_t error = sticky != cudaSuccess ? sticky : thread_error;
  thread_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError(void) {
  const cudaError_t sticky = device_state();
  return sticky != cudaSuccess ? sticky : thread_error;
}

void fusednorm_emulator_reset_errors(void) {
  Runtime& runtime = Runtime::get();
  for (auto& device : runtime.devices) device->sticky = cudaSuccess;
  runtime.last_report.clear();
  thread_error = cudaSuccess;
}
}
