// SPDX-License-Identifier: Apache-2.0
// Barriers of the block and the cluster, and memory fences.
#include "lanes.h"
#include "memory_access.h"
#include "order.h"

namespace fusednorm::emulator {
namespace {

// flags: the scope.
void execute_fence(Warp& w, const Instruction& i, uint32_t active) {
  fence(w, active, static_cast<Scope>(i.flags));
}
void execute_proxy_fence(Warp& w, const Instruction&, uint32_t active) {
  fence_proxy(w, active);
}
void no_operation(Warp&, const Instruction&, uint32_t) {}

// bar{.cta} and barrier{.cta}: sync, arrive, red. flags: 1 the predicate is negated, 2 aligned.
void decode_barrier(Decoder& d, Form& form, Instruction& out) {
  const bool is_bar = form.opcode() == "bar";
  if (!is_bar && form.take("cluster")) {
    form.ignore_one({"aligned"});
    const int step = form.take_one({"arrive", "wait"});
    if (step < 0) form.unsupported();
    out.flow = step == 0 ? Flow::ClusterArrive : Flow::ClusterWait;
    if (step == 0 && form.take("relaxed")) {
      out.flags = kRelaxedArrive;
    } else {
      form.ignore_one({step == 0 ? "release" : "acquire"});
    }
    return;
  }
  form.ignore_one({"cta"});
  const bool aligned = is_bar || form.take("aligned");
  out.flags = aligned ? 2 : 0;
  const size_t operands = d.operand_count();
  const int step = form.take_one({"sync", "arrive", "red"});
  if (step == 0) {
    out.flow = Flow::Barrier;
    out.a = d.source(d.operand(0), Type::U32);
    if (operands > 1) out.b = d.source(d.operand(1), Type::U32);
  } else if (step == 1) {
    out.flow = Flow::BarrierArrive;
    out.a = d.source(d.operand(0), Type::U32);
    out.b = d.source(d.operand(1), Type::U32);
  } else if (step == 2) {
    out.flow = Flow::Barrier;
    out.immediate = 1 + form.take_one({"popc", "and", "or"});
    if (out.immediate == 0 || form.take_type() != (out.immediate == 1 ? Type::U32 : Type::Pred))
      form.unsupported();
    out.dst = out.immediate == 1 ? d.destination(d.operand(0), Type::U32)
                                 : d.predicate_destination(d.operand(0));
    out.a = d.source(d.operand(1), Type::U32);
    if (operands > 3) out.b = d.source(d.operand(2), Type::U32);
    bool negated = false;
    out.c = d.predicate_source(d.operand(operands - 1), negated);
    if (negated) out.flags |= 1;
  } else {
    form.unsupported();
  }
}

}  // namespace

void add_barrier_opcodes(OpcodeTable& table) {
  static DecodeFunction warp_barrier;
  warp_barrier = table["bar.warp"];
  table.erase("bar.warp");
  table["bar"] = [](Decoder& d, Form& form, Instruction& out) {
    (form.has("warp") ? warp_barrier : decode_barrier)(d, form, out);
  };
  table["barrier"] = decode_barrier;
  // Stores are seen at once here, by every proxy; fences matter to the search for races.
  table["membar"] = [](Decoder&, Form& form, Instruction& out) {
    const int scope = form.take_one({"cta", "gl", "sys"});
    if (scope < 0) form.unsupported();
    out.handler = execute_fence;
    out.flags = scope == 0 ? kScopeBlock : kScopeDevice;
  };
  table["fence"] = [](Decoder&, Form& form, Instruction& out) {
    if (form.take("proxy")) {
      const int proxy = form.take_one({"alias", "async"});
      if (proxy < 0) form.unsupported();
      if (proxy == 1) form.ignore_one({"global", "shared::cta", "shared::cluster"});
      out.handler = proxy == 1 ? execute_proxy_fence : no_operation;
      return;
    }
    // What mbarrier.init wrote becomes visible to the cluster, and to copies that signal it.
    if (form.take("mbarrier_init")) {
      if (!form.take("release") || !form.take("cluster")) form.unsupported();
      out.handler = execute_proxy_fence;
      return;
    }
    form.take_one({"sc", "acq_rel"});
    const int scope = form.take_one({"cta", "cluster", "gpu", "sys"});
    if (scope < 0) form.unsupported();
    out.handler = execute_fence;
    out.flags = static_cast<uint8_t>(scope);
  };
}

}  // namespace fusednorm::emulator
