// SPDX-License-Identifier: Apache-2.0
// The emulator's own API: see include/fusednorm_emulator.h.
#include <algorithm>

#include "runtime.h"

using namespace fusednorm::emulator;

extern "C" {

int fusednorm_emulator_device_preset(int major, int minor, FusednormEmulatorDevice* out) {
  return device_preset(major, minor, *out) ? 0 : -1;
}

int fusednorm_emulator_set_devices(int count, const FusednormEmulatorDevice* devices) {
  if (count < 1 || count > 16 || !devices) return -1;
  for (int k = 0; k < count; ++k)
    if (std::any_of(devices[k].gpcs, devices[k].gpcs + 16, [](int size) { return size < 0; }))
      return -1;
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  runtime.set_devices(std::vector<FusednormEmulatorDevice>(devices, devices + count));
  set_current_device(0);
  return 0;
}

void fusednorm_emulator_set_seed(uint64_t seed) {
  Runtime::get().seed = seed;
}

void fusednorm_emulator_set_checks(unsigned checks) {
  Checks& all = Runtime::get().checks;
  all.uninitialised = checks & FUSEDNORM_EMULATOR_CHECK_UNINITIALISED;
  all.shared_races = checks & FUSEDNORM_EMULATOR_CHECK_SHARED_RACES;
  all.global_races = checks & FUSEDNORM_EMULATOR_CHECK_GLOBAL_RACES;
}

unsigned fusednorm_emulator_checks(void) {
  const Checks& all = Runtime::get().checks;
  return (all.uninitialised ? 1u : 0u) | (all.shared_races ? 2u : 0u) |
         (all.global_races ? 4u : 0u);
}

void fusednorm_emulator_set_host_threads(unsigned threads) {
  Runtime::get().host_threads = threads;
}

void fusednorm_emulator_set_load_latency(unsigned cycles) {
  Runtime::get().load_latency = cycles;
}

void fusednorm_emulator_set_registers(FusednormEmulatorRegisters registers, void* context) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  runtime.registers = registers;
  runtime.registers_context = context;
}

void fusednorm_emulator_set_trace(FusednormEmulatorChoice choice, void* context) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  runtime.choice = choice;
  runtime.choice_context = context;
}

int fusednorm_emulator_trace(size_t index, FusednormEmulatorTrace* out) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  const auto found = runtime.traces.find(index);
  if (found == runtime.traces.end() || !out) return -1;
  const Trace& trace = *found->second;
  *out = {trace.statements.size(), trace.listed.size(), trace.arrays.size(),
          trace.register_count,    trace.signals,       trace.statements.data(),
          trace.listed.data(),     trace.arrays.data()};
  return 0;
}

size_t fusednorm_emulator_launch_count(void) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  return runtime.launches.size();
}

int fusednorm_emulator_launch(size_t index, FusednormEmulatorLaunch* out) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  if (index >= runtime.launches.size() || !out) return -1;
  *out = runtime.launches[index];
  return 0;
}

void fusednorm_emulator_reset_launches(void) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  runtime.launches.clear();
  runtime.traces.clear();
}

const char* fusednorm_emulator_last_report(void) {
  thread_local std::string text;
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  text = runtime.last_report;
  return text.c_str();
}

void fusednorm_emulator_set_print_reports(int print) {
  Runtime::get().print_reports = print != 0;
}
}
