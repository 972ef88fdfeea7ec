// SPDX-License-Identifier: Apache-2.0
// Where the figures are from:
//   multiprocessors, bandwidth, L2 bytes   NVIDIA's data sheets and whitepapers (SXM parts for A100
//                                          80 GB, H100 and B200)
//   clock                                  boost clock of the data sheet; H100 and B200 as they run
//                                          under load
//   lanes                                  CUDA programming guide, "Throughput of native arithmetic
//                                          instructions"
//   L1, L2, shared, remote, DRAM latency   A100, H100, RTX 4090: microbenchmarks of
//   arXiv:2402.13499
//                                          and 2501.12084 (L1 38-43, shared 29-30, L2 261-273, DRAM
//                                          466-542 cycles, SM to SM 180). B200: chipsandcheese.com
//                                          (L1 39 cycles, L2 150 ns in its half). RTX 5090: taken
//                                          to be as RTX 4090
//   DRAM latency of large arrays           the microbenchmarks plus a miss of the TLB and the way
//   to
//                                          the far half of the L2: estimated
//   loaded latency                         estimated: what the bytes in flight of shared/gpu.md
//   need copy share                             what copies and STREAM reach where they are
//   published, and
//                                          what the fastest published norms do not exceed:
//                                          estimated
//   L2 bandwidth                           estimated: 64 bytes a cycle a multiprocessor, cut to
//   what
//                                          is published for A100 and H100
//   launch, gap                            estimated
//   half V100                              the configuration of the simulator: GPGPU-Sim's QV100
//   with
//                                          half the multiprocessors and channels; latency as
//                                          simulated
#include "devices.h"

namespace fusednorm::cost {

//   name        cc   SMs  clock    bandwidth copy  loaded dram    L2   L1  shared remote  L2 bytes
//   L2 B/s f32  int  f64  launch gap absorbed
const Gpu gpus[gpu_count] = {
    {"A100", 80, 108,  1.41e9, 2.039e12, 0.90, 740, 430, 262, 38,
     29,     0,  40e6, 4.5e12, 64,       64,   32,  1.0, 1.2, 0},
    {"H100", 90,  132,  1.755e9, 3.35e12, 0.92, 790, 480, 263, 41,
     29,     180, 50e6, 6.5e12,  128,     64,   64,  1.0, 1.2, 0},
    {"B200", 100, 148,   1.85e9, 8.0e12, 0.92, 800, 560, 300, 39,
     29,     190, 126e6, 12e12,  128,    64,   64,  1.0, 1.2, 0},
    {"RTX 4090", 89, 128,  2.52e9, 1.008e12, 0.92, 600, 400, 273, 43,
     30,         0,  72e6, 5.0e12, 128,      64,   2,   1.0, 1.2, 0},
    {"RTX 5090", 120, 170,  2.41e9, 1.792e12, 0.92, 700, 450, 280, 43,
     30,         190, 96e6, 7.0e12, 128,      128,  2,   1.0, 1.2, 0},
};

const Gpu half_v100 = {"half V100", 75, 40,  1e9,     384e9, 1.0, 440, 440, 190, 28,
                       25,          0,  3e6, 1.28e12, 64,    64,  32,  0,   0,   3e6};

const Gpu& gpu_of_architecture(int architecture) {
  for (const Gpu& gpu : gpus)
    if (gpu.architecture == architecture) return gpu;
  const Gpu* best = &gpus[0];
  for (const Gpu& gpu : gpus)
    if (gpu.architecture <= architecture && gpu.architecture > best->architecture) best = &gpu;
  return *best;
}

}  // namespace fusednorm::cost
