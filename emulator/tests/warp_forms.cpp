// SPDX-License-Identifier: Apache-2.0
// What lanes and warps do together, copies, barriers, fences, control flow, and what is only
// advice.
#include "forms.h"

namespace {

uint32_t mine(const Words& in, int lane, int word = 0) {
  return in[static_cast<size_t>(4 * lane + word)];
}
#define LANE [](const Words& in, int lane) -> uint32_t { (void)in; (void)lane; return
#define END \
  ;         \
  }

const std::vector<WarpForm> kForms = {
    // shuffles: the value and whether the source lane was in range
    {"shfl_up", "shfl.sync.up.b32 %r9|%p1, %t, 3, 0, -1; @!%p1 add.s32 %r9, %r9, 100;",
     LANE uint32_t(lane < 3 ? lane + 100 : lane - 3) END},
    {"shfl_up_segment", "shfl.sync.up.b32 %r9|%p1, %t, 2, 0x1800, -1; @!%p1 add.s32 %r9, %r9, 100;",
     LANE uint32_t(lane % 8 < 2 ? lane + 100 : lane - 2) END},
    {"shfl_down", "shfl.sync.down.b32 %r9|%p1, %t, 5, 31, -1; @!%p1 add.s32 %r9, %r9, 100;",
     LANE uint32_t(lane < 27 ? lane + 5 : lane + 100) END},
    {"shfl_down_segment",
     "shfl.sync.down.b32 %r9|%p1, %t, 2, 0x181f, -1; @!%p1 add.s32 %r9, %r9, 100;",
     LANE uint32_t(lane % 8 < 6 ? lane + 2 : lane + 100) END},
    {"shfl_bfly", "shfl.sync.bfly.b32 %r9, %t, 5, 31, -1;", LANE uint32_t(lane ^ 5) END},
    {"shfl_bfly_segment",
     "shfl.sync.bfly.b32 %r9|%p1, %t, 9, 0x181f, -1; @!%p1 add.s32 %r9, %r9, 100;",
     LANE uint32_t((lane ^ 9) <= (lane | 7) ? lane ^ 9 : lane + 100) END},
    {"shfl_idx", "and.b32 %r1, %t, 3; shfl.sync.idx.b32 %r9, %t, %r1, 31, -1;",
     LANE uint32_t(lane & 3) END},
    {"shfl_idx_segment",
     "shfl.sync.idx.b32 %r9|%p1, %t, 13, 0x181f, -1; @!%p1 add.s32 %r9, %r9, 100;",
     LANE uint32_t((lane & 24) | 5) END},
    {"shfl_idx_clamp", "shfl.sync.idx.b32 %r9|%p1, %t, 20, 15, -1; @!%p1 add.s32 %r9, %r9, 100;",
     LANE uint32_t(lane + 100) END},
    {"vote",
     "setp.gt.u32 %p1, %t, 20; vote.sync.ballot.b32 %r1, %p1, -1; vote.sync.any.pred %p2, %p1, -1; "
     "vote.sync.all.pred %p3, %p1, -1; vote.sync.uni.pred %p4, !%p3, -1; selp.u32 %r2, 1, 0, %p2; "
     "selp.u32 %r3, 2, 0, %p3; selp.u32 %r4, 4, 0, %p4; popc.b32 %r1, %r1; shl.b32 %r1, %r1, 4; "
     "or.b32 %r9, %r1, %r2; or.b32 %r9, %r9, %r3; or.b32 %r9, %r9, %r4;",
     LANE 11u << 4 | 1 | 4 END},
    {"match_any", "and.b32 %r1, %t, 3; match.any.sync.b32 %r9, %r1, -1;",
     LANE 0x11111111u << (lane & 3) END},
    {"match_any_64", "and.b32 %r1, %t, 1; mov.b64 %w1, {0, %r1}; match.any.sync.b64 %r9, %w1, -1;",
     LANE 0x55555555u << (lane & 1) END},
    {"match_all",
     "mov.u32 %r2, 7; match.all.sync.b32 %r1|%p1, %r2, -1; match.all.sync.b32 %r3|%p2, %t, -1; "
     "selp.u32 %r9, %r1, 0, %p1; @%p2 mov.u32 %r9, 0; xor.b32 %r9, %r9, %r3;",
     LANE 0xffffffffu END},
    {"match_all_64",
     "mov.u64 %w1, 7; match.all.sync.b64 %r1|%p1, %w1, -1; selp.u32 %r9, %r1, 0, %p1;",
     LANE 0xffffffffu END},
    {"elect_activemask",
     "elect.sync %r1|%p1, -1; selp.u32 %r9, 1, 0, %p1; activemask.b32 %r2; popc.b32 %r2, %r2; "
     "mad.lo.s32 %r9, %r2, 10, %r9;",
     LANE lane == 0 ? 321u : 320u END},
    // barriers of the block; warp 1 of two hands its numbers to warp 0
    {"bar_red",
     "setp.lt.u32 %p1, %t, 7; bar.red.popc.u32 %r1, 0, %p1; bar.red.or.pred %p2, 1, %p1; "
     "bar.red.and.pred %p3, 0, !%p1; selp.u32 %r2, 10, 0, %p2; selp.u32 %r3, 100, 0, %p3; add.s32 "
     "%r9, %r1, %r2; add.s32 %r9, %r9, %r3;",
     LANE 17u END},
    {"barrier_red",
     "setp.lt.u32 %p1, %t, 7; barrier.cta.red.popc.aligned.u32 %r1, 0, %p1; "
     "barrier.red.or.aligned.pred %p2, 1, 32, %p1; barrier.red.and.aligned.pred %p3, 0, %p1; "
     "barrier.red.popc.u32 %r4, 2, !%p1; barrier.red.or.pred %p4, 3, %p1; barrier.red.and.pred "
     "%p5, 4, %p1; selp.u32 %r2, 10, 0, %p2; selp.u32 %r3, 100, 0, %p3; @%p4 add.s32 %r2, %r2, "
     "1000; @%p5 add.s32 %r2, %r2, 5000; add.s32 %r9, %r1, %r2; add.s32 %r9, %r9, %r3; add.s32 "
     "%r9, %r9, %r4;",
     LANE 1017u + 25u END},
    {"bar_sync",
     "shl.b32 %r1, %t, 2; mov.u32 %r2, tile; add.s32 %r3, %r1, %r2; st.shared.u32 [%r3], %t; "
     "bar.cta.sync 0; xor.b32 %r4, %r1, 128; add.s32 %r4, %r4, %r2; ld.shared.u32 %r9, [%r4];",
     LANE uint32_t(lane + 32) END, 64},
    {"barrier_sync",
     "shl.b32 %r1, %t, 2; mov.u32 %r2, tile; add.s32 %r3, %r1, %r2; st.shared.u32 [%r3], %t; "
     "barrier.sync 5; xor.b32 %r4, %r1, 128; add.s32 %r4, %r4, %r2; ld.shared.u32 %r9, [%r4]; "
     "barrier.sync.aligned 6, 64;",
     LANE uint32_t(lane + 32) END, 64},
    {"bar_arrive",
     "shl.b32 %r1, %t, 2; mov.u32 %r2, tile; add.s32 %r3, %r1, %r2; setp.ge.u32 %p1, %t, 32; "
     "mov.u32 %r9, 0; @!%p1 bra CONSUME; st.shared.u32 [%r3], %t; bar.arrive 1, 64; bra DONE; "
     "CONSUME: bar.sync 1, 64; ld.shared.u32 %r9, [%r3+128]; DONE: add.s32 %r9, %r9, 1;",
     LANE uint32_t(lane + 33) END, 64},
    {"barrier_arrive",
     "shl.b32 %r1, %t, 2; mov.u32 %r2, tile; add.s32 %r3, %r1, %r2; setp.ge.u32 %p1, %t, 32; "
     "mov.u32 %r9, 0; @!%p1 bra CONSUME; st.shared.u32 [%r3], %t; barrier.arrive 1, 64; "
     "barrier.arrive.aligned 2, 64; bra DONE; CONSUME: barrier.sync 1, 64; barrier.sync.aligned 2, "
     "64; ld.shared.u32 %r9, [%r3+128]; DONE: add.s32 %r9, %r9, 1;",
     LANE uint32_t(lane + 33) END, 64},
    {"bar_warp",
     "shl.b32 %r1, %t, 4; mov.u32 %r2, tile; add.s32 %r1, %r1, %r2; st.shared.v4.u32 [%r1], {%t, "
     "1, 2, 3}; bar.warp.sync -1; xor.b32 %r3, %t, 5; shl.b32 %r3, %r3, 4; add.s32 %r3, %r3, %r2; "
     "ld.shared.u32 %r9, [%r3];",
     LANE uint32_t(lane ^ 5) END},
    {"cluster_of_one",
     "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; "
     "barrier.cluster.arrive.release; barrier.cluster.wait.acquire; "
     "barrier.cluster.arrive.relaxed; barrier.cluster.wait; mov.u32 %r1, tile; st.shared.u32 "
     "[%r1], 4; bar.warp.sync -1; mapa.shared::cluster.u32 %r2, %r1, 0; ld.shared::cluster.u32 "
     "%r9, [%r2]; mov.u32 %r3, %cluster_nctarank; add.s32 %r9, %r9, %r3;",
     LANE 5u END},
    {"mapa",
     "mov.u32 %r1, tile; mov.u64 %w1, tile; st.shared.u32 [%r1], 4; bar.warp.sync -1; "
     "mapa.shared::cluster.u64 %w2, %w1, 0; ld.shared::cluster.u32 %r2, [%w2]; cvta.shared.u64 "
     "%w3, %w1; mapa.u64 %w4, %w3, 0; ld.u32 %r3, [%w4]; mapa.u32 %r4, %r1, 0; "
     "ld.shared::cluster.u32 %r5, [%r4]; add.s32 %r9, %r2, %r3; add.s32 %r9, %r9, %r5;",
     LANE 12u END},
    {"getctarank",
     "mov.u32 %r1, tile; mov.u64 %w1, tile; mapa.shared::cluster.u32 %r2, %r1, 0; "
     "getctarank.shared::cluster.u32 %r3, %r2; getctarank.shared::cluster.u64 %r4, %w1; "
     "cvta.shared.u64 %w2, %w1; getctarank.u64 %r5, %w2; getctarank.u32 %r6, %r1; add.s32 %r9, "
     "%r3, %r4; add.s32 %r9, %r9, %r5; add.s32 %r9, %r9, %r6; add.s32 %r9, %r9, 1;",
     LANE 1u END},
    // which space an address lies in: one bit for each yes
    {"isspacep",
     "mov.u64 %w1, tile; cvta.shared.u64 %w1, %w1; mov.u64 %w2, depot; cvta.local.u64 %w2, %w2; "
     "mov.b64 %w3, pair; cvta.param.u64 %w3, %w3; mov.u64 %w4, table; mov.u32 %r9, 0; "
     "isspacep.shared %p1, %w1; @%p1 add.s32 %r9, %r9, 1; isspacep.shared::cta %p1, %w1; @%p1 "
     "add.s32 %r9, %r9, 2; isspacep.shared::cluster %p1, %w1; @%p1 add.s32 %r9, %r9, 4; "
     "isspacep.local %p1, %w2; @%p1 add.s32 %r9, %r9, 8; "
     "isspacep.param %p1, %w3; @%p1 add.s32 %r9, %r9, 16; isspacep.param::entry %p1, %w3; @%p1 "
     "add.s32 %r9, %r9, 32; isspacep.const %p1, %w4; @%p1 add.s32 %r9, %r9, 64; isspacep.global "
     "%p1, %in; @%p1 add.s32 %r9, %r9, 128;",
     LANE 255u END},
    {"isspacep_not",
     "mov.u64 %w1, tile; cvta.shared.u64 %w1, %w1; mov.u64 %w4, table; mov.u32 %r9, 0; "
     "isspacep.shared %p1, %in; @%p1 add.s32 %r9, %r9, 1; isspacep.shared::cta %p1, %in; @%p1 "
     "add.s32 %r9, %r9, 2; isspacep.shared::cluster %p1, %in; @%p1 add.s32 %r9, %r9, 4; "
     "isspacep.local %p1, %w1; @%p1 add.s32 %r9, %r9, 8; "
     "isspacep.param %p1, %w1; @%p1 add.s32 %r9, %r9, 16; isspacep.const %p1, %in; @%p1 add.s32 "
     "%r9, %r9, 64; isspacep.global %p1, %w4; @%p1 add.s32 %r9, %r9, 128; isspacep.global %p1, "
     "%w1; @%p1 add.s32 %r9, %r9, 256;",
     LANE 0u END},
    // asynchronous copies
    {"cp_async_cg",
     "shl.b32 %r1, %t, 4; mov.u32 %r2, tile; add.s32 %r1, %r1, %r2; "
     "cp.async.cg.shared.global.L2::128B [%r1], [%mine], 16; cp.async.commit_group; "
     "cp.async.wait_group 0; ld.shared.u32 %r9, [%r1+8];",
     LANE mine(in, lane, 2) END},
    {"cp_async_cta",
     "shl.b32 %r1, %t, 4; mov.u32 %r2, tile; add.s32 %r1, %r1, %r2; "
     "cp.async.cg.shared::cta.global.L2::64B [%r1], [%mine], 16; "
     "cp.async.ca.shared::cta.global.L2::256B [%r1+1024], [%mine+8], 8; cp.async.wait_all; "
     "ld.shared.u32 %r9, [%r1+8]; ld.shared.u32 %r3, [%r1+1024]; add.s32 %r9, %r9, %r3;",
     LANE mine(in, lane, 2) * 2 END},
    {"cp_async_part",
     "shl.b32 %r1, %t, 4; mov.u32 %r2, tile; add.s32 %r1, %r1, %r2; cp.async.ca.shared.global "
     "[%r1], [%mine], 4, 2; cp.async.wait_all; ld.shared.u32 %r9, [%r1];",
     LANE mine(in, lane) & 0xffff END},
    {"cp_async_nothing",
     "shl.b32 %r1, %t, 4; mov.u32 %r2, tile; add.s32 %r1, %r1, %r2; cp.async.cg.shared.global "
     "[%r1], [%mine], 16, 0; cp.async.wait_all; ld.shared.v2.u32 {%r3, %r4}, [%r1+8]; or.b32 %r9, "
     "%r3, %r4;",
     LANE 0u END},
    {"cp_async_ignore",
     "setp.lt.u32 %p1, %t, 5; shl.b32 %r1, %t, 4; mov.u32 %r2, tile; add.s32 %r1, %r1, %r2; "
     "cp.async.ca.shared.global [%r1], [%mine+8], 8, %p1; cp.async.wait_all; ld.shared.u32 %r9, "
     "[%r1+4];",
     LANE lane < 5 ? 0 : mine(in, lane, 3) END},
    {"cp_async_groups",
     "shl.b32 %r1, %t, 4; mov.u32 %r2, tile; add.s32 %r1, %r1, %r2; cp.async.ca.shared.global "
     "[%r1], [%mine], 4; cp.async.commit_group; cp.async.ca.shared.global.L2::cache_hint [%r1+4], "
     "[%mine+4], 4, 4; cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r9, [%r1]; "
     "cp.async.wait_group 0; ld.shared.u32 %r3, [%r1+4]; sub.s32 %r9, %r9, %r3;",
     LANE mine(in, lane) - mine(in, lane, 1) END},
    // control flow
    {"branch",
     "mov.u32 %r9, 1; setp.lt.u32 %p1, %t, 7; @%p1 bra SMALL; add.s32 %r9, %r9, 10; bra.uni DONE; "
     "SMALL: add.s32 %r9, %r9, 100; DONE: add.s32 %r9, %r9, 1000;",
     LANE lane < 7 ? 1101u : 1011u END},
    {"loop",
     "mov.u32 %r1, %t; mov.u32 %r9, 0; AGAIN: add.s32 %r9, %r9, %r1; setp.gt.u32 %p1, %r1, 0; @%p1 "
     "sub.s32 %r1, %r1, 1; @%p1 bra AGAIN;",
     LANE uint32_t(lane*(lane + 1) / 2) END},
    {"branch_table",
     "and.b32 %r1, %t, 3; targets: .branchtargets A, B, C, A; brx.idx %r1, targets; A: mov.u32 "
     "%r9, 1; bra DONE; B: mov.u32 %r9, 2; bra DONE; C: mov.u32 %r9, 3; DONE: add.s32 %r9, %r9, "
     "10;",
     LANE(lane & 3) == 1 ? 12u
     : (lane & 3) == 2   ? 13u
                         : 11u END},
    {"branch_table_uniform",
     "mov.u32 %r1, 1; targets: .branchtargets A, B; brx.idx.uni %r1, targets; A: mov.u32 %r9, 1; "
     "bra DONE; B: mov.u32 %r9, 2; DONE: add.s32 %r9, %r9, 10;",
     LANE 12u END},
    {"exit", "setp.lt.u32 %p1, %t, 9; mov.u32 %r9, 5; @%p1 st.global.u32 [%out], %t; @%p1 exit;",
     LANE lane < 9 ? uint32_t(lane) : 5u END},
    {"ret",
     "setp.lt.u32 %p1, %t, 9; mov.u32 %r9, 5; @%p1 st.global.u32 [%out], %t; @%p1 ret; setp.lt.u32 "
     "%p1, %t, 12; @%p1 st.global.u32 [%out], 77; @%p1 ret.uni;",
     LANE lane < 9 ? uint32_t(lane)
     : lane < 12   ? 77u
                   : 5u END},
    {"call",
     "{ .param .align 16 .b8 x[32]; .param .b32 y; st.param.b64 [x], 0; st.param.b64 [x+8], 0; "
     "st.param.b64 [x+16], 0; st.param.b64 [x+24], 0; st.param.b32 [x+28], %t; call (y), words, "
     "(x); ld.param.b32 %r9, [y]; }",
     LANE 852891037441u % 4294967296u + uint32_t(lane) END},
    {"special_registers",
     "mov.u32 %r1, %ntid.x; mov.u32 %r2, %lanemask_lt; popc.b32 %r2, %r2; mov.u32 %r3, %laneid; "
     "mov.u32 %r4, %nctaid.y; add.s32 %r9, %r1, %r2; add.s32 %r9, %r9, %r3; add.s32 %r9, %r9, %r4;",
     LANE uint32_t(33 + 2 * lane) END},
    // what only takes time, or is advice
    {"advice",
     "griddepcontrol.wait; griddepcontrol.launch_dependents; nanosleep.u32 10; brkpt; pmevent 1; "
     "pmevent.mask 3; setmaxnreg.inc.sync.aligned.u32 64; setmaxnreg.dec.sync.aligned.u32 32; "
     "prefetch.global.L2 [%mine]; prefetch.global.L1 [%mine]; prefetch.L1 [%mine]; prefetch.L2 "
     "[%mine]; prefetch.local.L1 [depot]; prefetch.local.L2 [depot]; "
     "prefetch.global.L2::evict_last [%mine]; prefetch.global.L2::evict_normal [%mine]; "
     "prefetchu.L1 [%mine]; applypriority.global.L2::evict_normal [%mine], 128; "
     "createpolicy.fractional.L2::evict_last.b64 %w1, 1; "
     "createpolicy.fractional.L2::evict_normal.b64 %w1, 1; "
     "createpolicy.fractional.L2::evict_first.b64 %w1, 1; "
     "createpolicy.fractional.L2::evict_unchanged.b64 %w1, 1; mov.u32 %r9, %t;",
     LANE uint32_t(lane) END},
};
#undef LANE
#undef END

// Fences keep the value that was stored; what they order is tested with races (broken_test.cu).
void add_fences(std::vector<WarpForm>& forms) {
  std::vector<std::string> fences = {"membar.cta",
                                     "membar.gl",
                                     "membar.sys",
                                     "fence.proxy.alias",
                                     "fence.proxy.async",
                                     "fence.proxy.async.global",
                                     "fence.proxy.async.shared::cta",
                                     "fence.proxy.async.shared::cluster"};
  for (const char* scope : {"cta", "cluster", "gpu", "sys"})
    for (const char* order : {"", "sc.", "acq_rel."})
      fences.push_back(std::string("fence.") + order + scope);
  for (const std::string& fence : fences)
    forms.push_back(
        {fence,
         "st.volatile.global.u32 [%out], %t; " + fence + "; ld.volatile.global.u32 %r9, [%out];",
         [](const Words&, int lane) { return uint32_t(lane); }});
}

// The reduction of the lanes of each half of the warp, by itself.
void add_redux(std::vector<WarpForm>& forms) {
  auto add = [&](const std::string& opcode, const std::string& prepare,
                 const std::function<Bits(const Words&, int lane)>& value, Bits (*op)(Bits, Bits)) {
    forms.push_back(
        {opcode,
         prepare + "mov.u32 %r2, 0xffff; setp.ge.u32 %p1, %t, 16; @%p1 shl.b32 %r2, %r2, 16; " +
             opcode + " %r9, %r1, %r2;",
         [=](const Words& in, int lane) {
           const int first = lane & 16;
           Bits out = value(in, first);
           for (int k = first + 1; k < first + 16; ++k) out = op(out, value(in, k));
           return uint32_t(out);
         }});
  };
  const auto word = [](const Words& in, int lane) { return Bits(mine(in, lane)); };
  const std::string load = "ld.global.u32 %r1, [%mine]; ";
  add("redux.sync.add.u32", load, word, [](Bits a, Bits b) { return a + b; });
  add("redux.sync.add.s32", load, word, [](Bits a, Bits b) { return a + b; });
  add("redux.sync.min.u32", load, word, [](Bits a, Bits b) { return std::min(a, b); });
  add("redux.sync.max.u32", load, word, [](Bits a, Bits b) { return std::max(a, b); });
  add("redux.sync.min.s32", load, word,
      [](Bits a, Bits b) { return bits(std::min(int32_t(a), int32_t(b))); });
  add("redux.sync.max.s32", load, word,
      [](Bits a, Bits b) { return bits(std::max(int32_t(a), int32_t(b))); });
  add("redux.sync.and.b32", load, word, [](Bits a, Bits b) { return a & b; });
  add("redux.sync.or.b32", load, word, [](Bits a, Bits b) { return a | b; });
  add("redux.sync.xor.b32", load, word, [](Bits a, Bits b) { return a ^ b; });
  // f32: lane 3 of the lower half is a NaN.
  const std::string numbers =
      load + "setp.eq.u32 %p1, %t, 3; and.b32 %r1, %r1, 0xbfffffff; @%p1 mov.u32 %r1, 0x7fc00001; ";
  const auto plain = [](const Words& in, int lane) {
    return lane == 3 ? Bits(0x7fc00001) : Bits(mine(in, lane) & 0xbfffffff);
  };
  const auto magnitude = [=](const Words& in, int lane) { return plain(in, lane) & 0x7fffffff; };
  auto low = [](Bits a, Bits b) { return bits(device_min(f(a), f(b))); };
  auto high = [](Bits a, Bits b) { return bits(device_max(f(a), f(b))); };
  auto low_nan = [](Bits a, Bits b) {
    return f(a) != f(a) || f(b) != f(b) ? Bits(0x7fffffff) : bits(device_min(f(a), f(b)));
  };
  auto high_nan = [](Bits a, Bits b) {
    return f(a) != f(a) || f(b) != f(b) ? Bits(0x7fffffff) : bits(device_max(f(a), f(b)));
  };
  add("redux.sync.min.f32", numbers, plain, low);
  add("redux.sync.max.f32", numbers, plain, high);
  add("redux.sync.min.abs.f32", numbers, magnitude, low);
  add("redux.sync.max.abs.f32", numbers, magnitude, high);
  add("redux.sync.min.NaN.f32", numbers, plain, low_nan);
  add("redux.sync.max.NaN.f32", numbers, plain, high_nan);
  add("redux.sync.min.abs.NaN.f32", numbers, magnitude, low_nan);
  add("redux.sync.max.abs.NaN.f32", numbers, magnitude, high_nan);
}

}  // namespace

std::vector<WarpForm> warp_forms() {
  std::vector<WarpForm> forms = kForms;
  add_fences(forms);
  add_redux(forms);
  return forms;
}
