// SPDX-License-Identifier: Apache-2.0
// Where the figures are from. "Estimated" is a guess of ours that nobody has measured.
//   multiprocessors, bandwidth, L2 bytes   NVIDIA's data sheets (SXM parts of A100 80 GB, H100,
//   B200) clock                                  boost clocks of the data sheets; B200: 1.85 GHz,
//   estimated lanes                                  CUDA programming guide, "Arithmetic
//   Instructions" L1, L2, shared, remote latency         A100, H100, RTX 4090: the microbenchmarks
//   of
//                                          arXiv:2402.13499 and arXiv:2501.12084 (L1 38 to 43,
//                                          shared 29 to 30, L2 261 to 273 cycles, SM to SM 180),
//                                          cited from memory. B200: chipsandcheese.com (L1 39
//                                          cycles, L2 150 ns in its half). RTX 5090: as RTX 4090,
//                                          estimated
//   DRAM latency                           the same papers' 466 to 542 cycles, and a hundred or two
//   ns
//                                          for the TLB and the far half of the L2: estimated
//   loaded latency                         estimated; 14 KB in flight on A100, 20 on H100, 42 on
//   B200 copy share                             estimated: no published norm of large arrays
//   exceeds it by
//                                          much
//   L2 bandwidth                           estimated: below 64 bytes a cycle a multiprocessor
//   launch, gap                            estimated
//   half V100                              the simulator's configuration (GPGPU-Sim's QV100 with
//   half
//                                          of the multiprocessors and channels), latency as it
//                                          simulates it; the share of peak that its best norm
//                                          draws; its L2 starts clean
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

const Gpu half_v100 = {"half V100", 75, 40,  1e9,     384e9, 0.88, 440, 440, 190, 28,
                       25,          0,  3e6, 1.28e12, 64,    64,   32,  0,   0,   3e6};

const Gpu& gpu_of_architecture(int architecture) {
  for (const Gpu& gpu : gpus)
    if (gpu.architecture == architecture) return gpu;
  const Gpu* best = &gpus[0];
  for (const Gpu& gpu : gpus)
    if (gpu.architecture <= architecture && gpu.architecture > best->architecture) best = &gpu;
  return *best;
}

}  // namespace fusednorm::cost
