// SPDX-License-Identifier: Apache-2.0
// Runs a problem on an emulated device of any kind.
#include "emulated_run.h"

#include "../device_array.h"
#include "fusednorm/cuda.h"
#include "fusednorm_emulator.h"
#include "resources.h"

#pragma weak fusednorm_emulator_set_devices
#pragma weak fusednorm_emulator_device_preset
#pragma weak fusednorm_emulator_reset_launches
#pragma weak fusednorm_emulator_last_report
#pragma weak fusednorm_emulator_set_print_reports
#pragma weak fusednorm_emulator_set_registers

namespace fusednorm::cost {
namespace {

Status run_on(const Problem& problem, const cuda::Device& device, PlanFacts* facts) {
  const bench::DeviceArrays arrays(problem);
  if (!arrays.exist()) return Status::device_error("not enough device memory");
  const auto finish = [&](const auto& plan, const auto& buffers) -> Status {
    if (!plan) return plan.status();
    facts->explanation = cuda::explain(*plan);
    const int inputs = problem.is_forward() ? 1 : 2;
    facts->load_bytes_per_thread = plan->launch.vectors_per_thread * 16 * inputs;
    const bench::DeviceArray workspace(static_cast<std::int64_t>(plan->workspace_bytes) / 2 + 1,
                                       DType::f16, 0);
    fusednorm_emulator_reset_launches();
    if (auto status = cuda::run(*plan, buffers, {workspace.data(), plan->workspace_bytes}, nullptr);
        !status)
      return status;
    const cudaError_t error = cudaDeviceSynchronize();
    return error == cudaSuccess ? Status() : Status::device_error(cudaGetErrorString(error));
  };
  if (problem.is_forward())
    return finish(cuda::plan(forward_problem(problem), device), arrays.forward(problem));
  return finish(cuda::plan(backward_problem(problem), device), arrays.backward(problem));
}

}  // namespace

std::string play(const Device& device, Assembler* assembler) {
  if (fusednorm_emulator_set_devices == nullptr)
    return "counting needs the emulated device: put its libcudart on LD_LIBRARY_PATH";
  FusednormEmulatorDevice played;
  fusednorm_emulator_device_preset(device.compute_capability / 10, device.compute_capability % 10,
                                   &played);
  played.multiprocessors = device.multiprocessors;
  fusednorm_emulator_set_devices(1, &played);
  fusednorm_emulator_set_print_reports(0);
  fusednorm_emulator_set_registers(
      [](const char* kernel, int capability, void* context) {
        return static_cast<Assembler*>(context)->registers_of(kernel, capability);
      },
      assembler);
  return "";
}

std::string run(const Problem& problem, PlanFacts* facts) {
  const auto queried = cuda::query(0);
  if (!queried) return queried.status().message();
  const Status status = run_on(problem, *queried, facts);
  return status ? "" : status.message() + "\n" + fusednorm_emulator_last_report();
}

}  // namespace fusednorm::cost
