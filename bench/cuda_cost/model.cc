// SPDX-License-Identifier: Apache-2.0
// Problems under the model of time.
#include "model.h"

#include <algorithm>
#include <cstdio>

#include "problems/minimal_bytes.h"

#pragma weak fusednorm_emulator_set_trace
#pragma weak fusednorm_emulator_trace
#pragma weak fusednorm_emulator_checks
#pragma weak fusednorm_emulator_set_checks
#pragma weak fusednorm_emulator_launch_count
#pragma weak fusednorm_emulator_launch
#pragma weak fusednorm_emulator_reset_launches

namespace fusednorm::cost {
namespace {

/// The launches, valid until the emulator is asked for something else.
std::vector<TracedLaunch> trace(const std::function<std::string()>& launch, const Device& device,
                                Assembler* assembler, std::string* error) {
  std::vector<TracedLaunch> launches;
  *error = play(device, assembler);
  if (!error->empty()) return launches;
  // Other clusters than those traced do not run: what they would have written is missing.
  const unsigned checks = fusednorm_emulator_checks();
  fusednorm_emulator_set_checks(0);
  fusednorm_emulator_set_trace(choose_cluster, nullptr);
  fusednorm_emulator_reset_launches();
  *error = launch();
  fusednorm_emulator_set_trace(nullptr, nullptr);
  fusednorm_emulator_set_checks(checks);
  if (!error->empty()) return launches;
  launches.resize(fusednorm_emulator_launch_count());
  for (std::size_t k = 0; k < launches.size(); ++k) {
    fusednorm_emulator_launch(k, &launches[k].launch);
    fusednorm_emulator_trace(k, &launches[k].trace);
  }
  return launches;
}

/// The launch that moves most.
LaunchTime main_launch(const Prediction& prediction) {
  return *std::max_element(
      prediction.launches.begin(), prediction.launches.end(),
      [](const LaunchTime& a, const LaunchTime& b) { return a.dram_bytes < b.dram_bytes; });
}

/// Of the least bytes that the problem can move: stores leave the multiprocessor and are not waited
/// for, so that Little's law asks for loads in flight, at the rate at which loads come.
double read_share(const Problem& problem) {
  const problems::Bytes bytes = problems::minimal_bytes(problem);
  return static_cast<double>(bytes.read) / static_cast<double>(bytes.total());
}

}  // namespace

Modelled model(const std::function<std::string()>& launch, const Gpu& gpu, bool with_unlimited,
               Assembler* assembler) {
  Modelled out;
  const auto launches =
      trace(launch, {gpu.architecture, gpu.multiprocessors}, assembler, &out.error);
  if (!out.error.empty()) return out;
  out.timed = predict(gpu, launches);
  if (with_unlimited) out.unlimited = predict(gpu, launches, {true});
  for (const Prediction* prediction : {&out.timed, &out.unlimited})
    for (const LaunchTime& one : prediction->launches)
      if (!one.complete) out.error = "the replay of its traces does not come to an end";
  return out;
}

Modelled model(const Problem& problem, const Gpu& gpu, Assembler* assembler) {
  PlanFacts ignored;
  return model([&] { return run(problem, &ignored); }, gpu, true, assembler);
}

std::string add_bytes_in_flight(const Problem& problem, const Device& device, Assembler* assembler,
                                Cost* cost) {
  std::string error;
  const Gpu& gpu = gpu_of_architecture(device.compute_capability);
  PlanFacts ignored;
  const auto launches = trace([&] { return run(problem, &ignored); }, device, assembler, &error);
  if (!error.empty()) return error;
  cost->bytes_in_flight = main_launch(predict(gpu, launches, {true})).bytes_in_flight;
  cost->bytes_in_flight_needed = needed_bytes_in_flight(gpu);
  cost->in_flight_over_needed = cost->bytes_in_flight / cost->bytes_in_flight_needed;
  cost->in_flight_over_reads = cost->in_flight_over_needed / read_share(problem);
  return "";
}

int print_model(const std::vector<Problem>& problems, Assembler* assembler) {
  std::printf(
      "A model, not a measurement: docs/cost-model.md says how far off it has been seen.\n"
      "Shares of the peak bandwidth and of what a copy reaches, for the least bytes possible; KB "
      "in "
      "flight a multiprocessor,\nand over what Little's law asks for if all traffic were loads, "
      "and "
      "for the loads there are; then each launch: us, and shares of it that DRAM, issue, units, "
      "shared memory are busy.\n%-40s %-9s %9s %6s %6s %-8s "
      "%16s\n",
      "problem", "device", "us", "peak", "copy", "bound", "in flight");
  int predicted = 0;
  for (const Problem& problem : problems) {
    for (const Gpu& gpu : gpus) {
      const Modelled modelled = model(problem, gpu, assembler);
      std::printf("%-40s %-9s ", to_string(problem).c_str(), gpu.name);
      if (!modelled.error.empty()) {
        std::printf("%s\n", modelled.error.substr(0, modelled.error.find('\n')).c_str());
        continue;
      }
      ++predicted;
      const Prediction& timed = modelled.timed;
      const double minimum = static_cast<double>(problems::minimal_bytes(problem).total());
      const double share = minimum / gpu.bandwidth / timed.seconds;
      const double in_flight = main_launch(modelled.unlimited).bytes_in_flight;
      const double over_needed = in_flight / needed_bytes_in_flight(gpu);
      std::printf("%9.2f %5.0f%% %5.0f%% %-8s %4.0f %5.2f %5.2f", timed.seconds * 1e6, 100 * share,
                  100 * share / gpu.copy_share, timed.bound, in_flight / 1024, over_needed,
                  over_needed / read_share(problem));
      for (const LaunchTime& l : timed.launches) {
        std::printf("  %.2f %.2f %.2f %.2f %.2f", l.seconds * 1e6, l.dram_busy, l.issue_busy,
                    l.pipe_busy, l.shared_busy);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  return predicted > 0 ? 0 : 1;
}

}  // namespace fusednorm::cost
