// SPDX-License-Identifier: Apache-2.0
/* Control of the emulated CUDA device, for tests: which devices it plays, what it checks, what
 * launches cost.
 *
 * The functions live in the emulator's libcudart. A program that may also run on a real GPU finds
 * them with dlsym(RTLD_DEFAULT, "fusednorm_emulator_...") or declares them weak: with a real
 * libcudart they are absent. All of them may be called at any time from any thread, but not while a
 * kernel runs.
 */
#ifndef FUSEDNORM_EMULATOR_H
#define FUSEDNORM_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct FusednormEmulatorDevice {
  int major, minor; /* compute capability */
  int multiprocessors;
  size_t shared_per_block; /* without opting in: 48 KB everywhere */
  size_t shared_per_block_optin;
  size_t shared_per_multiprocessor;
  size_t l2_bytes;
  size_t memory_bytes; /* cudaMalloc fails past this */
  int threads_per_multiprocessor;
  int blocks_per_multiprocessor;
  /* Multiprocessors of each GPC, then zeros: a cluster lives in one GPC. Where they do not add up
   * to `multiprocessors` (all zero, or a preset whose count was changed), GPCs of 16 are assumed.
   */
  int gpcs[16];
} FusednormEmulatorDevice;

/* The device of a known compute capability (75, 80, 86, 89, 90, 100, 103, 110, 120, 121; others get
 * the nearest below). Returns 0, or -1 for a capability below 7.5. */
int fusednorm_emulator_device_preset(int major, int minor, FusednormEmulatorDevice* out);

/* Plays these devices from now on. Everything allocated before is forgotten. Returns 0 or -1 (no
 * device, too many, a negative number). */
int fusednorm_emulator_set_devices(int count, const FusednormEmulatorDevice* devices);

/* Order of warps and blocks: 0 fixed, anything else shuffled by this seed. */
void fusednorm_emulator_set_seed(uint64_t seed);

enum {
  FUSEDNORM_EMULATOR_CHECK_UNINITIALISED = 1, /* reads of memory that nobody wrote */
  FUSEDNORM_EMULATOR_CHECK_SHARED_RACES = 2,
  FUSEDNORM_EMULATOR_CHECK_GLOBAL_RACES = 4, /* between blocks of a launch */
  FUSEDNORM_EMULATOR_CHECK_ALL = 7,
  FUSEDNORM_EMULATOR_CHECK_DEFAULT = FUSEDNORM_EMULATOR_CHECK_ALL
};
/* Bounds, lifetime, alignment, barriers, shuffles, deadlocks and launch limits are always checked.
 */
void fusednorm_emulator_set_checks(unsigned checks);
unsigned fusednorm_emulator_checks(void);

/* Host threads a launch is spread over; 0: one a core. Counters do not depend on it. */
void fusednorm_emulator_set_host_threads(unsigned threads);

/* Cycles from the issue of a load to its arrival, for the bytes in flight below. The default is an
 * assumption about large GPUs with their memory at work, not a measurement. */
enum { FUSEDNORM_EMULATOR_LOAD_LATENCY = 600 };
void fusednorm_emulator_set_load_latency(unsigned cycles);

/* Registers a thread of a kernel (mangled name) on a device of compute capability major * 10 +
 * minor, as ptxas gives them: PTX does not know. Asked once when a kernel is first launched or
 * asked about on a device; 0: unknown, and then only .maxnreg limits how many blocks a
 * multiprocessor holds. The function must not call the runtime or the emulator. Null takes it back.
 */
typedef int (*FusednormEmulatorRegisters)(const char* kernel, int capability, void* context);
void fusednorm_emulator_set_registers(FusednormEmulatorRegisters registers, void* context);

/* What one launch cost. Sums over all its warps. */
typedef struct FusednormEmulatorLaunch {
  char kernel[256]; /* mangled name, cut to fit */
  int device;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t dynamic_shared_bytes, static_shared_bytes;
  int cooperative;
  int programmatic; /* a programmatic dependent launch */
  int failed;       /* stopped by a fault: the counters are incomplete */
  /* What the device holds at once: blocks a multiprocessor (by threads, shared memory, registers),
   * clusters in all (by its GPCs; clusters of one block where there are none), and how often it
   * must be filled for the whole grid: clusters of the grid / resident_clusters, rounded up. */
  uint32_t resident_blocks, resident_clusters, waves;
  /* PTX instructions executed; lanes under a false predicate included; mov, cvta, ld.param,
   * st.param and exit left out; IEEE division, reciprocal and square root counted as ten. */
  uint64_t warp_instructions;
  uint64_t thread_instructions;
  uint64_t issue_slots;           /* warp_instructions x 32 */
  uint64_t raw_warp_instructions; /* every statement counted once */
  uint64_t raw_thread_instructions;
  /* Global memory: warp-level requests, 32-byte sectors they touch, distinct sectors (DRAM
   * traffic: loads are sectors whose first access in the launch is a load). Atomics count as stores
   * (and as loads in DRAM). */
  uint64_t global_load_requests, global_store_requests;
  uint64_t global_load_sectors, global_store_sectors;
  uint64_t dram_load_sectors, dram_store_sectors;
  /* Of global_store_sectors: those of which a store request writes only some of the 32 bytes. Each
   * costs the L2 as much as a whole one. Atomics are left out. */
  uint64_t partial_store_sectors;
  /* Sectors of loads that a first-level cache of 16 KB a block would not have had: L2 traffic.
   * Volatile and ordered loads, and cp.async of 16 bytes, pass it by; cache hints change nothing.
   * The order of warps shows where a block loads more than the cache holds. */
  uint64_t l2_load_sectors;
  /* Shared memory: warp-level requests, wavefronts, and the fewest wavefronts that could have
   * served them. */
  uint64_t shared_load_requests, shared_store_requests;
  uint64_t shared_wavefronts, shared_ideal_wavefronts;
  uint64_t local_requests; /* to local memory: spills and arrays */
  uint64_t block_barriers; /* arrivals of warps at a barrier of the block */
  uint64_t cluster_barriers;
  uint64_t warp_barriers; /* __syncwarp */
  uint64_t shuffles;      /* warp instructions */
  uint64_t votes;         /* vote, match, redux */
  uint64_t global_atomics, shared_atomics;
  uint64_t divergent_branches;
  /* Bytes in flight a multiprocessor: requested of global memory by loads and cp.async, and not yet
   * used. Bandwidth is at most the average over the latency.
   *
   * The model: each warp has a clock. An instruction (weighted as in warp_instructions) takes as
   * many cycles as a scheduler has warps: those resident on a multiprocessor / 4, at least 1. The
   * sectors of a load are in flight from its issue until an instruction reads a register that it
   * loaded (cp.async: until wait_group or wait_all covers it); that instruction issues when the
   * load has arrived, so many cycles of latency after its issue, or at once if it has. A move is no
   * use: its destination waits for what its source waits for. At a barrier of the block or the
   * cluster, and a named one, all clocks that meet are set to the latest. An exit waits for what is
   * outstanding. Stores, atomics, shared memory and local memory cost their instruction and no time
   * beyond it; nothing is ever throttled. The order is that of the PTX, and ptxas may issue loads
   * earlier.
   *
   * Average: bytes x cycles in flight / cycles, over all warps, times the warps that a
   * multiprocessor holds. Peak: the sum of the peaks of a block's warps, of the block that has
   * most, times the blocks. Blocks that a multiprocessor holds: resident_blocks, or fewer if the
   * grid has fewer. */
  double average_bytes_in_flight;
  uint64_t peak_bytes_in_flight;
} FusednormEmulatorLaunch;

/* Traces: what the warps of chosen clusters execute, in the order of each warp. (A launch without
 * clusters has clusters of one block.)
 *
 * Warps wait for each other by signals: one phase of a barrier, of the block, the cluster or an
 * mbarrier, is one signal. It is given when every step that arrives at it has; the step of an
 * asynchronous copy arrives when its data has. */
enum { FUSEDNORM_EMULATOR_NO_TARGET = 0xffffffffu };

typedef struct FusednormEmulatorStatement {
  const char* text; /* the opcode with its modifiers: "ld.global.v4.f32" */
  uint32_t weight;  /* as in warp_instructions */
  uint32_t target;  /* of a branch: the statement it goes to, or FUSEDNORM_EMULATOR_NO_TARGET */
  int jumps;        /* a branch, a call or an exit: the next statement may be another one */
  uint32_t reads, writes;    /* registers, predicates and the guard included */
  const uint32_t* registers; /* numbers: those it reads, then those it writes */
} FusednormEmulatorStatement;

typedef struct FusednormEmulatorStep {
  uint32_t statement;
  uint32_t lanes; /* that execute it: 0 under a false guard */
  /* Global memory: sectors asked for, those a first-level cache would not have had, those that no
   * warp of the launch had touched before, and the array they are in (the last, if in several). */
  uint32_t sectors, l2_sectors, new_sectors, array;
  uint32_t wavefronts;     /* of shared memory */
  uint32_t arrives, waits; /* signals, 0: none */
  uint32_t value;          /* of a wait for groups of copies: how many may be left */
  uint8_t remote;          /* shared memory of another block of the cluster */
  uint8_t continues;       /* the step before it goes on: its lanes arrive at another signal */
} FusednormEmulatorStep;

typedef struct FusednormEmulatorTracedWarp {
  uint64_t cluster, block; /* linear numbers */
  uint32_t rank, warp;     /* of the block in the cluster, of the warp in the block */
  size_t step_count;
  const FusednormEmulatorStep* steps;
} FusednormEmulatorTracedWarp;

typedef struct FusednormEmulatorArray {
  uint64_t address, bytes; /* of an allocation */
} FusednormEmulatorArray;

typedef struct FusednormEmulatorTrace {
  size_t statement_count, warp_count, array_count;
  uint32_t register_count, signal_count; /* signals are 1 ... signal_count */
  const FusednormEmulatorStatement* statements;
  const FusednormEmulatorTracedWarp* warps;
  const FusednormEmulatorArray* arrays;
} FusednormEmulatorTrace;

enum {
  FUSEDNORM_EMULATOR_RUN = 0, /* the cluster runs, untraced */
  FUSEDNORM_EMULATOR_TRACE = 1 /* it runs and is traced */,
  FUSEDNORM_EMULATOR_SKIP = 2 /* it does not run: results are wrong, but traces are soon made */
};
/* Asked for each cluster of each launch from now on; `launch` has its shape and what is resident,
 * no counters. Launches are traced on one host thread. Null ends it. */
typedef int (*FusednormEmulatorChoice)(const FusednormEmulatorLaunch* launch, uint64_t cluster,
                                       void* context);
void fusednorm_emulator_set_trace(FusednormEmulatorChoice choice, void* context);
/* The trace of a launch, by the index of fusednorm_emulator_launch. Returns 0, or -1 if there is
 * none. Valid until the launches are reset. */
int fusednorm_emulator_trace(size_t index, FusednormEmulatorTrace* out);

/* Launches since the start or the last reset. */
size_t fusednorm_emulator_launch_count(void);
/* Returns 0, or -1 if there is no such launch. */
int fusednorm_emulator_launch(size_t index, FusednormEmulatorLaunch* out);
void fusednorm_emulator_reset_launches(void);

/* The text of the last report ("" if there was none): a checker's finding, a bad launch, a module
 * that does not load. The pointer is valid until the calling thread asks again. */
const char* fusednorm_emulator_last_report(void);
/* Whether reports are also printed to stderr (1, the default) or only kept (0). */
void fusednorm_emulator_set_print_reports(int print);
/* Forgets the sticky error of every device, the last error of the calling thread and the last
 * report. */
void fusednorm_emulator_reset_errors(void);

/* The instruction forms that the emulator knows, one a line: "ld global nc v4 f32", and
 * "ld ~L2::128B" for a modifier of ld that is accepted and changes nothing. The second function
 * gives the lines that an instruction such as "ld.global.nc.L2::128B.v4.f32" is an instance of, ""
 * if it is unknown. Pointers are valid until the calling thread asks again. */
const char* fusednorm_emulator_forms(void);
const char* fusednorm_emulator_forms_of(const char* instruction);

#ifdef __cplusplus
}
#endif
#endif
