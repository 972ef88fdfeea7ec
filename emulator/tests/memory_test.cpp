// Forms that touch memory or other lanes: loads and stores of every width and space, atomics,
// shuffles, votes, copies.
#include <cuda_runtime.h>

#include <functional>

#include "device_memory.h"
#include "fusednorm_emulator.h"
#include "ptx_module.h"

namespace {

using Words = std::vector<uint32_t>;

// One warp. %in: address of 32 words, %mine: of this lane's four words, %out: of this lane's word;
// %t: the lane.
struct Form {
  const char* name;
  const char* body;  // leaves its result in %r9
  std::function<uint32_t(const Words& in, int lane)> expected;
};

std::string kernel_of(const Form& form) {
  return ".version 8.7\n.target sm_90\n.address_size 64\n.global .align 16 .b8 "
         "variable[64];\n.const .align 4 .u32 table[4] = {5, 6, 7, 8};\n"
         ".visible .entry form(.param .u64 in, .param .u64 out, .param .align 8 .b8 pair[8])\n{\n"
         ".reg .pred %p<8>;\n.reg .b16 %h<10>;\n.reg .b32 %r<20>, %t;\n.reg .f32 %f<10>;\n.reg "
         ".b64 %w<20>, %in, %out, %mine;\n"
         ".shared .align 16 .b8 tile[1024];\n.local .align 16 .b8 depot[64];\n"
         "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmul.wide.u32 "
         "%w0, %t, 16;\nadd.s64 %mine, %in, %w0;\n"
         "mul.wide.u32 %w0, %t, 4;\nadd.s64 %out, %out, %w0;\n" +
         std::string(form.body) + "\nst.global.u32 [%out], %r9;\nret;\n}\n";
}

class MemoryForms : public testing::TestWithParam<Form> {};

TEST_P(MemoryForms, AgreesWithTheHost) {
  const Form& form = GetParam();
  fusednorm_emulator_reset_errors();
  Words in(128);
  for (int k = 0; k < 128; ++k) in[k] = 0x9e3779b9u * static_cast<uint32_t>(k + 1);
  for (uint64_t seed : {0, 5}) {
    fusednorm_emulator_set_seed(seed);
    PtxModule module(kernel_of(form));
    DeviceArray<uint32_t> a(in), out(32);
    uint32_t *pa = a.get(), *po = out.get();
    uint32_t pair[2] = {11, 22};
    ASSERT_EQ(module.launch("form", 1, 32, {&pa, &po, pair}), cudaSuccess)
        << fusednorm_emulator_last_report();
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    const Words got = out.values();
    for (int lane = 0; lane < 32; ++lane)
      EXPECT_EQ(got[lane], form.expected(in, lane)) << form.name << " lane " << lane;
  }
  fusednorm_emulator_set_seed(0);
}

uint32_t mine(const Words& in, int lane, int word = 0) {
  return in[4 * lane + word];
}
#define LANE [](const Words& in, int lane) -> uint32_t { (void)in; (void)lane; return
#define END \
  ;         \
  }

const std::vector<Form> kForms = {
    {"ld_u8", "ld.global.u8 %h0, [%mine+3]; cvt.u32.u16 %r9, %h0;", LANE mine(in, lane) >> 24 END},
    {"ld_s8", "ld.global.s8 %r9, [%mine+3];", LANE uint32_t(int8_t(mine(in, lane) >> 24)) END},
    {"ld_s16", "ld.global.s16 %r9, [%mine+2];", LANE uint32_t(int16_t(mine(in, lane) >> 16)) END},
    {"ld_u16_wide", "ld.global.u16 %r9, [%mine+2];", LANE mine(in, lane) >> 16 END},
    {"ld_b64",
     "ld.global.b64 %w1, [%mine+8]; cvt.u32.u64 %r9, %w1; shr.u64 %w1, %w1, 32; cvt.u32.u64 %r1, "
     "%w1; sub.s32 %r9, %r9, %r1;",
     LANE mine(in, lane, 2) - mine(in, lane, 3) END},
    {"ld_v2", "ld.global.v2.u32 {%r1, %r2}, [%mine+8]; xor.b32 %r9, %r1, %r2;",
     LANE mine(in, lane, 2) ^ mine(in, lane, 3) END},
    {"ld_v4_hints",
     "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, [%mine]; add.s32 %r9, "
     "%r1, %r3; sub.s32 %r9, %r9, %r4;",
     LANE mine(in, lane) + mine(in, lane, 2) - mine(in, lane, 3) END},
    {"ld_v4_u16", "ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%mine]; mov.b32 %r9, {%h4, %h1};",
     LANE mine(in, lane, 1) >> 16 | mine(in, lane) << 16 END},
    {"ld_v8",
     "and.b32 %r1, %t, 3; mul.wide.u32 %w1, %r1, 32; add.s64 %w1, %w1, %in; ld.global.v8.b32 {%r1, "
     "%r2, %r3, %r4, %r5, %r6, %r7, %r9}, [%w1];",
     LANE in[8 * (lane & 3) + 7] END},
    {"ld_v4_b64",
     "and.b32 %r1, %t, 3; mul.wide.u32 %w1, %r1, 32; add.s64 %w1, %w1, %in; ld.global.v4.b64 {%w2, "
     "%w3, %w4, %w5}, [%w1]; cvt.u32.u64 %r9, %w5;",
     LANE in[8 * (lane & 3) + 6] END},
    {"ld_scattered",
     "xor.b32 %r1, %t, 21; mul.wide.u32 %w1, %r1, 12; add.s64 %w1, %w1, %in; ld.global.u32 %r9, "
     "[%w1];",
     LANE in[3 * (lane ^ 21)] END},
    {"ld_generic", "ld.u32 %r9, [%mine+4];", LANE mine(in, lane, 1) END},
    {"ld_predicated", "mov.u32 %r9, 3; setp.lt.u32 %p1, %t, 9; @%p1 ld.global.u32 %r9, [%mine];",
     LANE lane < 9 ? mine(in, lane) : 3 END},
    {"ld_const",
     "and.b32 %r1, %t, 3; mul.wide.u32 %w1, %r1, 4; mov.u64 %w2, table; add.s64 %w1, %w1, %w2; "
     "ld.const.u32 %r9, [%w1];",
     LANE uint32_t(5 + (lane & 3)) END},
    {"ld_param", "ld.param.u32 %r9, [pair+4];", LANE 22u END},
    {"ld_param_by_register",
     "mov.b64 %w1, pair; and.b32 %r1, %t, 1; mul.wide.u32 %w2, %r1, 4; add.s64 %w1, %w1, %w2; "
     "ld.param.u32 %r9, [%w1];",
     LANE lane & 1 ? 22u : 11u END},
    {"st_bytes",
     "cvta.to.global.u64 %w2, %out; cvt.u16.u32 %h1, %t; st.global.u32 [%out], 0; st.global.u8 "
     "[%out+1], %h1; ld.global.u32 %r9, [%out];",
     LANE uint32_t(lane) << 8 END},
    {"st_v2_cs",
     "and.b32 %r1, %t, 0; mov.u64 %w1, depot; st.local.v2.u32 [%w1+8], {%t, 7}; ld.local.v2.u32 "
     "{%r2, %r3}, [%w1+8]; mad.lo.s32 %r9, %r2, 10, %r3;",
     LANE uint32_t(lane * 10 + 7) END},
    {"shared_v4",
     "shl.b32 %r1, %t, 4; mov.u32 %r2, tile; add.s32 %r1, %r1, %r2; st.shared.v4.u32 [%r1], {%t, "
     "1, 2, 3}; bar.warp.sync -1; xor.b32 %r3, %t, 5; shl.b32 %r3, %r3, 4; add.s32 %r3, %r3, %r2; "
     "ld.shared.u32 %r9, [%r3];",
     LANE uint32_t(lane ^ 5) END},
    {"shared_generic",
     "mov.u64 %w1, tile; cvta.shared.u64 %w1, %w1; mul.wide.u32 %w2, %t, 4; add.s64 %w2, %w2, %w1; "
     "st.u32 [%w2], %t; bar.sync 0; ld.u32 %r1, [%w1+12]; isspacep.shared %p1, %w1; selp.u32 %r9, "
     "%r1, 99, %p1;",
     LANE 3u END},
    {"volatile_and_acquire",
     "st.volatile.global.u32 [%out], %t; fence.acq_rel.gpu; ld.acquire.gpu.global.u32 %r9, [%out]; "
     "st.release.gpu.global.u32 [%out], 0; membar.gl;",
     LANE uint32_t(lane) END},
    {"atom_add_shared",
     "mov.u32 %r1, tile; setp.eq.s32 %p1, %t, 0; @%p1 st.shared.u32 [%r1], 100; bar.sync 0; "
     "atom.shared.add.u32 %r2, [%r1], 1; bar.sync 0; ld.shared.u32 %r9, [%r1];",
     LANE 132u END},
    {"atom_max_global",
     "atom.global.max.u32 %r1, [variable], %t; red.global.add.u32 [variable+4], 2; bar.sync 0; "
     "ld.global.u32 %r1, [variable]; ld.global.u32 %r2, [variable+4]; add.s32 %r9, %r1, %r2;",
     LANE 31u + 64u END},
    {"atom_cas_exch",
     "mov.u64 %w1, 0; atom.global.cas.b64 %w2, [variable+8], %w1, 5; atom.global.exch.b32 %r1, "
     "[variable+16], 9; atom.global.inc.u32 %r2, [variable+20], 3; bar.sync 0; ld.global.u32 %r3, "
     "[variable+8]; ld.global.u32 %r4, [variable+20]; mad.lo.s32 %r9, %r3, 10, %r4;",
     LANE 50u END},
    {"atom_float",
     "red.global.add.f32 [variable+24], 0f3F000000; bar.sync 0; ld.global.f32 %f1, [variable+24]; "
     "cvt.rzi.u32.f32 %r9, %f1;",
     LANE 16u END},
    {"atom_logic",
     "shl.b32 %r1, 1, %t; red.global.or.b32 [variable+28], %r1; atom.global.xor.b32 %r2, "
     "[variable+32], %t; red.global.min.s32 [variable+36], -4; bar.sync 0; ld.global.u32 %r1, "
     "[variable+28]; ld.global.u32 %r2, [variable+36]; add.s32 %r9, %r1, %r2;",
     LANE uint32_t(-5) END},
    {"shfl_up", "shfl.sync.up.b32 %r9|%p1, %t, 3, 0, -1; @!%p1 add.s32 %r9, %r9, 100;",
     LANE uint32_t(lane < 3 ? lane + 100 : lane - 3) END},
    {"shfl_down_segment",
     "shfl.sync.down.b32 %r9|%p1, %t, 2, 0x181f, -1; @!%p1 add.s32 %r9, %r9, 100;",
     LANE uint32_t(lane % 8 < 6 ? lane + 2 : lane + 100) END},
    {"shfl_bfly", "shfl.sync.bfly.b32 %r9, %t, 5, 31, -1;", LANE uint32_t(lane ^ 5) END},
    {"shfl_idx", "and.b32 %r1, %t, 3; shfl.sync.idx.b32 %r9, %t, %r1, 31, -1;",
     LANE uint32_t(lane & 3) END},
    {"vote",
     "setp.gt.u32 %p1, %t, 20; vote.sync.ballot.b32 %r1, %p1, -1; vote.sync.any.pred %p2, %p1, -1; "
     "vote.sync.all.pred %p3, %p1, -1; vote.sync.uni.pred %p4, !%p3, -1; selp.u32 %r2, 1, 0, %p2; "
     "selp.u32 %r3, 2, 0, %p3; selp.u32 %r4, 4, 0, %p4; popc.b32 %r1, %r1; shl.b32 %r1, %r1, 4; "
     "or.b32 %r9, %r1, %r2; or.b32 %r9, %r9, %r3; or.b32 %r9, %r9, %r4;",
     LANE 11u << 4 | 1 | 4 END},
    {"match_any", "and.b32 %r1, %t, 3; match.any.sync.b32 %r9, %r1, -1;",
     LANE 0x11111111u << (lane & 3) END},
    {"match_all", "mov.u64 %w1, 7; match.all.sync.b64 %r1|%p1, %w1, -1; selp.u32 %r9, %r1, 0, %p1;",
     LANE 0xffffffffu END},
    {"redux",
     "redux.sync.add.s32 %r1, %t, -1; redux.sync.max.u32 %r2, %t, -1; redux.sync.min.s32 %r3, %t, "
     "-1; redux.sync.xor.b32 %r4, %t, -1; shl.b32 %r2, %r2, 16; add.s32 %r9, %r1, %r2; add.s32 "
     "%r9, %r9, %r3; add.s32 %r9, %r9, %r4;",
     LANE 496u + (31u << 16) END},
    {"elect_activemask",
     "elect.sync %r1|%p1, -1; selp.u32 %r9, 1, 0, %p1; activemask.b32 %r2; popc.b32 %r2, %r2; "
     "mad.lo.s32 %r9, %r2, 10, %r9;",
     LANE lane == 0 ? 321u : 320u END},
    {"bar_red",
     "setp.lt.u32 %p1, %t, 7; bar.red.popc.u32 %r1, 0, %p1; barrier.cta.red.or.aligned.pred %p2, "
     "1, %p1; bar.red.and.pred %p3, 0, %p1; selp.u32 %r2, 10, 0, %p2; selp.u32 %r3, 100, 0, %p3; "
     "add.s32 %r9, %r1, %r2; add.s32 %r9, %r9, %r3;",
     LANE 17u END},
    {"cp_async",
     "shl.b32 %r1, %t, 4; mov.u32 %r2, tile; add.s32 %r1, %r1, %r2; "
     "cp.async.cg.shared.global.L2::128B [%r1], [%mine], 16; cp.async.commit_group; "
     "cp.async.wait_group 0; ld.shared.u32 %r9, [%r1+8];",
     LANE mine(in, lane, 2) END},
    {"cp_async_zero_fill",
     "shl.b32 %r1, %t, 4; mov.u32 %r2, tile; add.s32 %r1, %r1, %r2; cp.async.ca.shared.global "
     "[%r1], [%mine], 4, 2; cp.async.wait_all; ld.shared.u32 %r9, [%r1];",
     LANE mine(in, lane) & 0xffff END},
    {"cluster_of_one",
     "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r1, tile; "
     "st.shared.u32 [%r1], 4; bar.warp.sync -1; mapa.shared::cluster.u32 %r2, %r1, 0; "
     "ld.shared::cluster.u32 %r9, [%r2]; mov.u32 %r3, %cluster_nctarank; add.s32 %r9, %r9, %r3;",
     LANE 5u END},
    {"branch_table",
     "and.b32 %r1, %t, 3; targets: .branchtargets A, B, C, A; brx.idx %r1, targets; A: mov.u32 "
     "%r9, 1; bra DONE; B: mov.u32 %r9, 2; bra DONE; C: mov.u32 %r9, 3; DONE: add.s32 %r9, %r9, "
     "10;",
     LANE(lane & 3) == 1 ? 12u
     : (lane & 3) == 2   ? 13u
                         : 11u END},
    {"special_registers",
     "mov.u32 %r1, %ntid.x; mov.u32 %r2, %lanemask_lt; popc.b32 %r2, %r2; mov.u32 %r3, %laneid; "
     "mov.u32 %r4, %nctaid.y; add.s32 %r9, %r1, %r2; add.s32 %r9, %r9, %r3; add.s32 %r9, %r9, %r4;",
     LANE uint32_t(33 + 2 * lane) END},
    {"griddepcontrol",
     "griddepcontrol.wait; griddepcontrol.launch_dependents; nanosleep.u32 10; prefetch.global.L2 "
     "[%mine]; mov.u32 %r9, 1;",
     LANE 1u END},
};

INSTANTIATE_TEST_SUITE_P(Forms, MemoryForms, testing::ValuesIn(kForms),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
