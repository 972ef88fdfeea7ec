// Counts what a problem costs on an emulated device.
#include "count.h"

#include <cstdio>
#include <cstring>

#include "../device_array.h"
#include "fusednorm_emulator.h"

#pragma weak fusednorm_emulator_set_devices
#pragma weak fusednorm_emulator_device_preset
#pragma weak fusednorm_emulator_launch_count
#pragma weak fusednorm_emulator_launch
#pragma weak fusednorm_emulator_reset_launches
#pragma weak fusednorm_emulator_last_report

namespace fusednorm::cost {
namespace {

struct Minimum {
  double reads;
  double writes;
};

/// Each array that must move, once, statistics of the forward pass included.
Minimum minimum_of(const Problem& p) {
  const double size = static_cast<double>(size_of(p.dtype));
  const double matrix = p.elements() * size, vector = static_cast<double>(p.cols) * size;
  const double statistics =
      2.0 * static_cast<double>(p.rows) * static_cast<double>(size_of(compute_dtype(p.dtype)));
  if (p.forward) return {matrix + 2 * vector, matrix + statistics};
  return {2 * matrix + vector + statistics, matrix + 2 * vector};
}

Status run(const Problem& p, const cuda::Device& device, Cost* cost) {
  const bench::DeviceArrays arrays(!p.forward, p.rows, p.cols, p.cols, p.dtype, p.dtype, p.offset);
  if (!arrays.exist()) return Status::device_error("not enough device memory");
  const auto finish = [&](const auto& plan, const auto& buffers) -> Status {
    cost->explanation = cuda::explain(plan);
    cost->load_bytes_per_thread = plan.launch.vectors_per_thread * 16 * (p.forward ? 1 : 2);
    const bench::DeviceArray workspace(static_cast<std::int64_t>(plan.workspace_bytes) / 2 + 1,
                                       DType::f16, 0);
    fusednorm_emulator_reset_launches();
    if (auto status = cuda::run(plan, buffers, {workspace.data(), plan.workspace_bytes}, nullptr);
        !status)
      return status;
    const cudaError_t error = cudaDeviceSynchronize();
    return error == cudaSuccess ? Status() : Status::device_error(cudaGetErrorString(error));
  };
  if (p.forward) {
    ForwardProblem problem;
    problem.rows = p.rows;
    problem.cols = p.cols;
    problem.x_dtype = problem.y_dtype = problem.param_dtype = p.dtype;
    problem.save_mean = problem.save_rstd = true;
    const auto plan = cuda::plan(problem, device);
    if (!plan) return plan.status();
    return finish(*plan, arrays.forward());
  }
  BackwardProblem problem;
  problem.rows = p.rows;
  problem.cols = p.cols;
  problem.x_dtype = problem.y_dtype = problem.param_dtype = p.dtype;
  const auto plan = cuda::plan(problem, device);
  if (!plan) return plan.status();
  return finish(*plan, arrays.backward());
}

}  // namespace

std::string to_string(const Problem& p) {
  return std::string(p.forward ? "forward:" : "backward:") + name_of(p.dtype) + ":" +
         std::to_string(p.rows) + "x" + std::to_string(p.cols) +
         (p.offset ? ":offset=" + std::to_string(p.offset) : "");
}

bool parse(const std::string& text, Problem* problem) {
  char pass[16] = "", dtype[8] = "";
  long long rows = 0, cols = 0, offset = 0;
  const int fields = std::sscanf(text.c_str(), "%15[a-z]:%7[a-z0-9]:%lldx%lld:offset=%lld", pass,
                                 dtype, &rows, &cols, &offset);
  if (fields < 4 || rows < 1 || cols < 1 || offset < 0) return false;
  if (std::strcmp(pass, "forward") != 0 && std::strcmp(pass, "backward") != 0) return false;
  for (const DType candidate : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    if (std::strcmp(dtype, name_of(candidate)) != 0) continue;
    *problem = {std::strcmp(pass, "forward") == 0, candidate, rows, cols, offset};
    return true;
  }
  return false;
}

Cost count(const Problem& problem, const Device& device) {
  Cost cost;
  if (fusednorm_emulator_set_devices == nullptr) {
    cost.error = "counting needs the emulated device: put its libcudart on LD_LIBRARY_PATH";
    return cost;
  }
  FusednormEmulatorDevice played;
  fusednorm_emulator_device_preset(device.compute_capability / 10, device.compute_capability % 10,
                                   &played);
  played.multiprocessors = device.multiprocessors;
  fusednorm_emulator_set_devices(1, &played);
  const auto queried = cuda::query(0);
  if (!queried) return cost.error = queried.status().message(), cost;
  if (auto status = run(problem, *queried, &cost); !status) {
    return cost.error = status.message() + "\n" + fusednorm_emulator_last_report(), cost;
  }

  double loads = 0, requests = 0, sectors = 0, wavefronts = 0, ideal = 0, barriers = 0,
         shuffles = 0;
  double instructions = 0, slots = 0, dram = 0;
  for (std::size_t i = 0; i < fusednorm_emulator_launch_count(); ++i) {
    FusednormEmulatorLaunch launch;
    fusednorm_emulator_launch(i, &launch);
    cost.kernels.emplace_back(launch.kernel);
    if (cost.launches++ == 0) {
      cost.blocks = launch.grid[0];
      cost.threads_per_block = static_cast<int>(launch.block[0]);
    }
    const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
    instructions += number(launch.thread_instructions);
    slots += number(launch.issue_slots);
    dram += 32 * number(launch.dram_load_sectors + launch.dram_store_sectors);
    loads += 32 * number(launch.l2_load_sectors);
    requests += number(launch.global_load_requests + launch.global_store_requests);
    sectors += number(launch.global_load_sectors + launch.global_store_sectors);
    wavefronts += number(launch.shared_wavefronts);
    ideal += number(launch.shared_ideal_wavefronts);
    barriers += number(launch.block_barriers + launch.cluster_barriers);
    shuffles += number(launch.shuffles);
  }
  const Minimum minimum = minimum_of(problem);
  const double rows = static_cast<double>(problem.rows);
  cost.instructions = instructions / problem.elements();
  cost.issue_slots = slots / problem.elements();
  cost.dram_bytes = dram;
  cost.warp_instructions = slots / 32;
  cost.dram_bytes_over_minimum = dram / (minimum.reads + minimum.writes);
  cost.l2_reads_over_minimum = loads / minimum.reads;
  cost.sectors_per_request = sectors / requests;
  cost.shared_conflicts = ideal > 0 ? wavefronts / ideal - 1 : 0;
  cost.barriers_per_row = barriers / rows;
  cost.shuffles_per_row = shuffles / rows;
  return cost;
}

}  // namespace fusednorm::cost
