// SPDX-License-Identifier: Apache-2.0
// How ld, st and prefetches are recognised: space, memory order, hints, vector shape, address.
#include <algorithm>

#include "execute_memory.h"
#include "lanes.h"

namespace fusednorm::emulator {
namespace {

Space take_space(Form& form) {
  if (form.take("global")) return Space::Global;
  if (form.take_one({"shared", "shared::cta", "shared::cluster"}) >= 0) return Space::Shared;
  if (form.take("local")) return Space::Local;
  if (form.take_one({"param", "param::entry", "param::func"}) >= 0) return Space::Param;
  return form.take("const") ? Space::Const : Space::Generic;
}

// Hints about caches change nothing here.
void take_cache_hints(Form& form) {
  form.ignore_one({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  form.ignore_one({"L2::cache_hint"});
  form.ignore_one({"L2::64B", "L2::128B", "L2::256B"});
  form.ignore_one({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
                   "L1::no_allocate"});
  form.ignore_one({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
}

// The memory order and its scope; returns AccessFlags. Only memory that others can see has one.
uint8_t take_order(Form& form, Space space, bool loads) {
  form.ignore_one({"weak"});
  if (space != Space::Global && space != Space::Shared && space != Space::Generic) return 0;
  if (form.take("volatile")) return kStrong | kVolatile | kScopeDevice << kScopeShift;
  const int order = form.take_one({"relaxed", loads ? "acquire" : "release"});
  if (order < 0) return 0;
  form.ignore_one({"mmio"});
  const int flags = kStrong | take_scope(form) << kScopeShift;
  return static_cast<uint8_t>(flags | (order == 0 ? 0 : loads ? kAcquire : kRelease));
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
  out.count = static_cast<uint8_t>(1 << (1 + form.take_one({"v2", "v4", "v8"})));
  const Type type = form.take_type();
  const bool known = is_integer(type) || (byte_size(type) == 1) || is_bits(type) ||
                     type == Type::B128 || type == Type::F32 || type == Type::F64;
  if (!known) form.unsupported();
  if (type == Type::B128 && out.count > 1) form.unsupported();
  if (out.count == 8 && byte_size(type) != 4) form.unsupported();
  out.width = static_cast<uint8_t>(byte_size(type));
  const bool far = out.space == Space::Global || out.space == Space::Generic;
  if (uint32_t{out.width} * out.count > (far ? 32 : 16))
    form.unsupported("more than 16 or 32 bytes");
  return type;
}

// An argument or result of a call, which is a slot of registers.
void decode_slot(Decoder& d, const ParamSlot& slot, const Operand& address, Handler handler,
                 Instruction& out) {
  if (address.value + access_bytes(out) > slot.bytes)
    d.fail("past the end of the parameter " + address.name);
  out.handler = handler;
  out.c = slot.offset;
  out.immediate = address.value;
}

void decode_load(Decoder& d, Form& form, Instruction& out) {
  out.space = take_space(form);
  out.flags = take_order(form, out.space, true);
  if (out.space == Space::Global && !out.flags) form.ignore_one({"nc"});
  if (form.opcode() == "ldu" && (out.space != Space::Global || out.flags)) form.unsupported();
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
    if (const ParamSlot* slot = address.name.empty() ? nullptr : d.param_slot(address.name))
      return decode_slot(d, *slot, address, load_slot, out);
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
  if (form.take("async")) return decode_async_store(d, form, out);
  out.space = take_space(form);
  if (out.space == Space::Const) form.unsupported();
  out.flags = take_order(form, out.space, false);
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
    return decode_slot(d, *slot, address, store_slot, out);
  }
  d.address(address, out);
  out.handler = execute_store;
}

void no_operation(Warp&, const Instruction&, uint32_t) {}

}  // namespace

void add_memory_opcodes(OpcodeTable& table) {
  table["ld"] = table["ldu"] = decode_load;
  table["st"] = decode_store;
  // Advice: nothing is done, and nothing can go wrong; but a prefetch into the L2 is traffic.
  table["prefetch"] = [](Decoder& d, Form& form, Instruction& out) {
    const bool local = form.take("local");
    const bool global = !local && form.take("global");
    out.handler = no_operation;
    if (form.take("L1")) return;
    if (!form.take("L2") && (!global || form.take_one({"L2::evict_last", "L2::evict_normal"}) < 0))
      form.unsupported();
    if (!global) return;
    d.address(d.operand(0), out);
    out.in_flight = kClockNeeded;
    out.handler = execute_prefetch;
  };
  table["prefetchu"] = [](Decoder&, Form& form, Instruction& out) {
    if (!form.take("L1")) form.unsupported();
    out.handler = no_operation;
  };
  table["applypriority"] = [](Decoder&, Form& form, Instruction& out) {
    form.ignore_one({"global"});
    if (!form.take("L2::evict_normal")) form.unsupported();
    out.handler = no_operation;
  };
}

}  // namespace fusednorm::emulator
