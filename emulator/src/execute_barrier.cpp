// Barriers of the block and the cluster, and memory fences.
#include "global_races.h"
#include "lanes.h"

namespace fusednorm::emulator {
namespace {

void fence(Warp& w, const Instruction&, uint32_t) { release_fence(w); }

// bar{.cta} and barrier{.cta}: sync, arrive, red. flags: 1 the predicate is negated, 2 aligned.
void decode_barrier(Decoder& d, Form& form, Instruction& out) {
  const bool is_bar = form.opcode() == "bar";
  form.take("cta");
  const bool aligned = form.take("aligned") || is_bar;
  out.flags = aligned ? 2 : 0;
  if (form.take("cluster")) {
    out.flags = 0;
    form.take_any("release", "acquire", "relaxed");
    if (form.take("arrive")) {
      out.flow = Flow::ClusterArrive;
    } else if (form.take("wait")) {
      out.flow = Flow::ClusterWait;
    } else {
      form.unsupported();
    }
    return;
  }
  const size_t operands = d.operand_count();
  if (form.take("sync")) {
    out.flow = Flow::Barrier;
    out.a = d.source(d.operand(0), Type::U32);
    if (operands > 1) out.b = d.source(d.operand(1), Type::U32);
  } else if (form.take("arrive")) {
    out.flow = Flow::BarrierArrive;
    out.a = d.source(d.operand(0), Type::U32);
    out.b = d.source(d.operand(1), Type::U32);
  } else if (form.take("red")) {
    out.flow = Flow::Barrier;
    out.immediate = form.take("popc") ? 1 : form.take("and") ? 2 : form.take("or") ? 3 : 0;
    const Type type = form.take_type();
    if (out.immediate == 0 || (type != Type::U32 && type != Type::Pred)) form.unsupported();
    out.dst = out.immediate == 1 ? d.destination(d.operand(0), Type::U32) : d.predicate_destination(d.operand(0));
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
    const auto& parts = form.statement().opcode;
    (parts.size() > 1 && parts[1] == "warp" ? warp_barrier : decode_barrier)(d, form, out);
  };
  table["barrier"] = decode_barrier;
  table["fence"] = table["membar"] = [](Decoder&, Form& form, Instruction& out) {
    form.take_any("sc", "acq_rel", "acquire", "release", "mbarrier_init", "proxy", "async", "alias");
    form.take_any("cta", "cluster", "gpu", "sys", "gl", "sync_restrict::shared::cta", "sync_restrict::shared::cluster");
    form.take_any("async.global", "async.shared::cta", "global", "shared::cta", "shared::cluster");
    out.handler = fence;
  };
}

}  // namespace fusednorm::emulator
