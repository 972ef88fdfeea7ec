// How ld, st and prefetches are recognised: space, memory order, hints, vector shape, address.
#include <algorithm>

#include "execute_memory.h"
#include "lanes.h"

namespace fusednorm::emulator {
namespace {

Space take_space(Form& form) {
  if (form.take("global")) return Space::Global;
  if (form.take_any("shared", "shared::cta", "shared::cluster")) return Space::Shared;
  if (form.take("local")) return Space::Local;
  if (form.take("const")) return Space::Const;
  if (form.take_any("param", "param::entry", "param::func")) return Space::Param;
  return Space::Generic;
}

// Hints about caches change nothing here.
void take_cache_hints(Form& form) {
  form.take_any("ca", "cg", "cs", "lu", "cv", "wb", "wt", "L2::cache_hint", "L2::64B", "L2::128B",
                "L2::256B");
  form.take_any("L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
                "L1::no_allocate");
  form.take_any("L2::evict_normal", "L2::evict_first", "L2::evict_last");
}

// The memory order and its scope; returns AccessFlags.
uint8_t take_order(Form& form) {
  uint8_t flags = 0;
  form.take("weak");
  if (form.take_any("volatile", "relaxed", "mmio")) flags = kStrong;
  if (form.take("acquire")) flags = kStrong | kAcquire;
  if (form.take("release")) flags = kStrong | kRelease;
  form.take_any("cta", "cluster", "gpu", "sys");
  return flags;
}

// The registers of element(s), a single one or {..}.
template <class Offset>
void decode_elements(Decoder& d, Form& form, Instruction& out, const Operand& operand,
                     Offset offset) {
  const bool vector = operand.kind == Operand::Kind::List;
  const size_t count = vector ? operand.list.size() : 1;
  if (count != out.count) form.unsupported("the number of registers does not fit the vector");
  int register_bytes = 0, widest = 0;
  for (size_t k = 0; k < count; ++k) {
    out.list[k] = offset(vector ? operand.list[k] : operand, register_bytes);
    if (widest && register_bytes != widest &&
        (vector ? operand.list[k] : operand).kind == Operand::Kind::Register)
      d.fail("registers of different sizes in a vector");
    widest = std::max(widest, register_bytes);
  }
  out.register_width = static_cast<uint8_t>(widest);
}

Type take_shape(Form& form, Instruction& out) {
  out.count = form.take("v2") ? 2 : form.take("v4") ? 4 : form.take("v8") ? 8 : 1;
  const Type type = form.take_type();
  if (type == Type::None || type == Type::Pred) form.unsupported();
  out.width = static_cast<uint8_t>(byte_size(type));
  if (uint32_t{out.width} * out.count > 32) form.unsupported("more than 32 bytes");
  return type;
}

void decode_load(Decoder& d, Form& form, Instruction& out) {
  out.space = take_space(form);
  out.flags = take_order(form);
  form.take("nc");
  form.take("unified");
  take_cache_hints(form);
  const Type type = take_shape(form, out);
  const int at_least = byte_size(type) == 1 ? 2 : byte_size(type);
  decode_elements(d, form, out, d.operand(0), [&](const Operand& operand, int& bytes) {
    return d.destination_any(operand, bytes, at_least);
  });
  out.dst2 = is_signed(type) ? 1 : 0;
  const Operand& address = d.operand(1);
  if (out.space == Space::Param) {
    out.cost = 0;
    uint32_t offset = 0;
    if (const ParamSlot* slot = address.name.empty() ? nullptr : d.param_slot(address.name)) {
      if (address.value + access_bytes(out) > slot->bytes)
        d.fail("past the end of the parameter " + address.name);
      out.handler = load_slot;
      out.c = slot->offset;
      out.immediate = address.value;
      return;
    }
    if (!address.name.empty() && d.kernel_parameter(address.name, offset)) {
      out.handler = load_kernel_parameter;
      out.immediate = address.value + offset;
      return;
    }
  }
  d.address(address, out);
  out.handler = (out.flags & kStrong) ? execute_strong_load : execute_load;
}

void decode_store(Decoder& d, Form& form, Instruction& out) {
  out.space = take_space(form);
  out.flags = take_order(form);
  take_cache_hints(form);
  const Type type = take_shape(form, out);
  decode_elements(d, form, out, d.operand(1), [&](const Operand& operand, int& bytes) {
    return d.source_any(operand, bytes, byte_size(type) == 1 ? Type::B16 : type);
  });
  const Operand& address = d.operand(0);
  if (out.space == Space::Param) {
    out.cost = 0;
    const ParamSlot* slot = d.param_slot(address.name);
    if (!slot) d.fail("st.param to something that is not a parameter of a call");
    if (address.value + access_bytes(out) > slot->bytes)
      d.fail("past the end of the parameter " + address.name);
    out.handler = store_slot;
    out.c = slot->offset;
    out.immediate = address.value;
    return;
  }
  if (out.space == Space::Const) form.unsupported();
  d.address(address, out);
  out.handler = execute_store;
}

void no_operation(Warp&, const Instruction&, uint32_t) {}

}  // namespace

void add_memory_opcodes(OpcodeTable& table) {
  table["ld"] = table["ldu"] = decode_load;
  table["st"] = decode_store;
  table["prefetch"] = table["prefetchu"] = table["applypriority"] =
      table["discard"] = [](Decoder& d, Form& form, Instruction& out) {
        form.take_any("global", "local", "tensormap");
        form.take_any("L1", "L2", "L2::evict_last", "L2::evict_normal");
        if (form.opcode() == "discard") form.unsupported();
        (void)d;
        out.handler = no_operation;
      };
}

}  // namespace fusednorm::emulator
