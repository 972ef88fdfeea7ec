// SPDX-License-Identifier: Apache-2.0
// mbarrier in all its forms, and the copies that signal one: cp.async.bulk, st.async,
// cp.async.mbarrier.arrive. Every lane has an mbarrier of its own.
#include "forms.h"

namespace {

// %r1: the lane's 16 bytes in shared memory, %w1 the same as a generic address; the mbarrier is
// there.
const std::string kPlace =
    "mov.u32 %r1, tile; shl.b32 %r2, %t, 4; add.s32 %r1, %r1, %r2; cvt.u64.u32 %w1, %r1; "
    "cvta.shared.u64 %w1, %w1; ";

struct Where {
  const char* space;    // as the opcode names it
  const char* address;  // that goes with it
};
constexpr Where kBlock[] = {{"", "[%w1]"}, {".shared", "[%r1]"}, {".shared::cta", "[%r1]"}};
constexpr Where kCluster = {".shared::cluster", "[%r1]"};

std::string init(int count) {
  return kPlace + "mbarrier.init.shared.b64 [%r1], " + std::to_string(count) +
         "; fence.mbarrier_init.release.cluster; ";
}
// 1 in %r9 if the phase of this parity is over, else 0.
std::string over(int parity) {
  return "mbarrier.test_wait.parity.shared.b64 %p1, [%r1], " + std::to_string(parity) +
         "; selp.u32 %r8, 1, 0, %p1; ";
}
const auto one = [](const Words&, int) { return 1u; };

void add_arrivals(std::vector<WarpForm>& forms, const std::string& order, const Where& at) {
  const std::string tail = order + at.space + ".b64 ", place = at.address;
  const bool remote = at.space == std::string(".shared::cluster");
  const std::string state = remote ? "_" : "%w2";
  forms.push_back({"arrive",
                   init(1) + "mbarrier.arrive" + tail + state + ", " + place + "; " + over(0) +
                       "mov.u32 %r9, %r8;",
                   one});
  forms.push_back({"arrive_count",
                   init(3) + "mbarrier.arrive" + tail + state + ", " + place + ", 3; " + over(0) +
                       "mov.u32 %r9, %r8;",
                   one});
  // The first phase is over only when the bytes have come.
  for (const char* drop : {"", "_drop"})
    forms.push_back({"arrive_expect",
                     init(2) + "mbarrier.arrive" + drop + ".expect_tx" + tail + state + ", " +
                         place + ", 8; mbarrier.arrive.shared.b64 %w3, [%r1]; " + over(0) +
                         "sub.s32 %r9, 1, %r8; mbarrier.complete_tx.shared.b64 [%r1], 8; " +
                         over(0) + "and.b32 %r9, %r9, %r8;",
                     one});
  // One less is expected from the second phase on.
  forms.push_back({"arrive_drop",
                   init(3) + "mbarrier.arrive_drop" + tail + state + ", " + place +
                       "; mbarrier.arrive.shared.b64 %w3, [%r1], 2; "
                       "mbarrier.arrive.shared.b64 %w3, [%r1], 2; " +
                       over(1) + "mov.u32 %r9, %r8;",
                   one});
  if (remote) return;
  for (const char* drop : {"", "_drop"})
    forms.push_back({"arrive_no_complete",
                     init(5) + "mbarrier.arrive" + drop + ".noComplete" + tail + "%w2, " + place +
                         ", 2; mbarrier.pending_count.b64 %r7, %w2; sub.s32 %r9, %r7, 4;",
                     one});
}

void add_waits(std::vector<WarpForm>& forms, const std::string& order, const Where& at) {
  for (const char* step : {"test_wait", "try_wait"}) {
    const std::string tail = order + at.space + ".b64 %p1, " + at.address;
    forms.push_back({step,
                     init(1) + "mbarrier.arrive.shared.b64 %w2, [%r1]; mbarrier." + step + tail +
                         ", %w2; selp.u32 %r9, 1, 0, %p1;",
                     one});
    forms.push_back({step,
                     init(1) + "mbarrier.arrive.shared.b64 %w2, [%r1]; mbarrier." + step +
                         ".parity" + tail + ", 0; selp.u32 %r9, 1, 0, %p1; mbarrier." + step +
                         ".parity" + tail + ", 1; @%p1 mov.u32 %r9, 9;",
                     one});
  }
}

void add_stores(std::vector<WarpForm>& forms) {
  // The lane's word (or words) go to 1 KiB behind its mbarrier.
  const auto send = [&](const std::string& opcode, int bytes, const std::string& value,
                        const std::string& space) {
    const std::string size = std::to_string(bytes);
    forms.push_back(
        {"st_async",
         init(1) + "mbarrier.arrive.expect_tx.release.cta.shared.b64 %w2, [%r1], " + size +
             "; add.s32 %r3, %t, 7; cvt.u64.u32 %w4, %r3; mov.b32 %f1, %r3; "
             ".reg .f64 %d1; mov.b64 %d1, %w4; st.async" +
             space + ".mbarrier::complete_tx::bytes" + opcode + " [%r1+1024], " + value +
             ", [%r1]; WAIT: mbarrier.try_wait.parity.acquire.cta.shared.b64 %p1, "
             "[%r1], 0; @!%p1 bra WAIT; ld.shared.u32 %r9, [%r1+1024];",
         [](const Words&, int lane) { return static_cast<uint32_t>(lane + 7); }});
  };
  struct Kind {
    const char* type;
    int bytes;
    const char* reg;
  };
  for (const Kind& kind : {Kind{"b32", 4, "%r3"},
                           {"u32", 4, "%r3"},
                           {"s32", 4, "%r3"},
                           {"f32", 4, "%f1"},
                           {"b64", 8, "%w4"},
                           {"u64", 8, "%w4"},
                           {"s64", 8, "%w4"},
                           {"f64", 8, "%d1"}}) {
    const std::string type = std::string(".") + kind.type, reg = kind.reg;
    send(type, kind.bytes, reg, ".weak.shared::cluster");
    send(".v2" + type, 2 * kind.bytes, "{" + reg + ", " + reg + "}", "");
    if (kind.bytes == 4)
      send(".v4" + type, 16, "{" + reg + ", " + reg + ", " + reg + ", " + reg + "}",
           ".shared::cluster");
  }
}

void add_copies(std::vector<WarpForm>& forms) {
  const auto mine = [](const Words& in, int lane) { return in[static_cast<size_t>(4 * lane + 2)]; };
  const std::string wait =
      "WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra WAIT; ";
  for (const char* hint : {"", ".L2::cache_hint"})
    forms.push_back({"bulk_load",
                     init(1) +
                         "mbarrier.arrive.expect_tx.shared.b64 %w2, [%r1], 16; "
                         "cp.async.bulk.shared::" +
                         (*hint ? "cta" : "cluster") + ".global.mbarrier::complete_tx::bytes" +
                         hint + " [%r1+1024], [%mine], 16, [%r1]" + (*hint ? ", %w3" : "") + "; " +
                         wait + "ld.shared.u32 %r9, [%r1+1032];",
                     mine});
  forms.push_back({"bulk_between_blocks",
                   init(1) +
                       "ld.global.u32 %r4, [%mine+8]; st.shared.u32 [%r1+512], %r4; "
                       "st.shared.u32 [%r1+516], 0; st.shared.v2.u32 [%r1+520], {0, 0}; "
                       "fence.proxy.async.shared::cta; "
                       "mbarrier.arrive.expect_tx.shared.b64 %w2, [%r1], 16; "
                       "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                       "[%r1+1024], [%r1+512], 16, [%r1]; " +
                       wait + "ld.shared.u32 %r9, [%r1+1024];",
                   mine});
  for (const char* read : {"", ".read"})
    forms.push_back({"bulk_store",
                     kPlace +
                         "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%mine]; st.shared.v4.u32 "
                         "[%r1], {%r6, %r5, %r6, %r7}; fence.proxy.async; mov.u64 %w2, "
                         "variable; cvt.u64.u32 %w3, %r2; add.s64 %w2, %w2, %w3; "
                         "cp.async.bulk.global.shared::cta.bulk_group [%w2], [%r1], 16; "
                         "cp.async.bulk.commit_group; cp.async.bulk.wait_group" +
                         read +
                         " 0; cp.async.bulk.prefetch.L2.global [%mine], 16; "
                         "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%mine], 16, %w3; "
                         "ld.global.u32 %r9, [%w2];",
                     mine});
  for (const Where& at : kBlock)
    for (const bool counted : {true, false})
      forms.push_back({"cp_async_arrive",
                       init(counted ? 1 : 2) +
                           "cp.async.cg.shared.global [%r1+1024], [%mine], 16; "
                           "cp.async.mbarrier.arrive" +
                           (counted ? ".noinc" : "") + at.space + ".b64 " + at.address + "; " +
                           (counted ? "" : "mbarrier.arrive.shared.b64 %w2, [%r1], 2; ") + wait +
                           "ld.shared.u32 %r9, [%r1+1032];",
                       mine});
}

}  // namespace

std::vector<WarpForm> async_forms() {
  std::vector<WarpForm> forms;
  for (const Where& at : kBlock) {
    const std::string space = at.space, place = at.address;
    forms.push_back({"init",
                     kPlace + "mbarrier.init" + space + ".b64 " + place +
                         ", 1; mbarrier.arrive.shared.b64 %w2, [%r1]; " + over(0) +
                         "mov.u32 %r9, %r8; mbarrier.inval" + space + ".b64 " + place + ";",
                     one});
    for (const char* order : {"", ".relaxed"}) add_waits(forms, order, at);
  }
  for (const Where& at : {kBlock[0], kBlock[1], kBlock[2], kCluster}) {
    const std::string space = at.space, place = at.address;
    for (const char* order : {"", ".relaxed"}) add_arrivals(forms, order, at);
    forms.push_back({"bytes",
                     init(1) + "mbarrier.expect_tx.relaxed.cluster" + space + ".b64 " + place +
                         ", 8; mbarrier.arrive.shared.b64 %w2, [%r1]; " + over(0) +
                         "sub.s32 %r9, 1, %r8; mbarrier.complete_tx" + space + ".b64 " + place +
                         ", 8; " + over(0) + "and.b32 %r9, %r9, %r8;",
                     one});
  }
  add_stores(forms);
  add_copies(forms);
  return forms;
}
