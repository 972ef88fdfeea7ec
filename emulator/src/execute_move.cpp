// SPDX-License-Identifier: Apache-2.0
// Moves and addresses: mov (packing and unpacking too), cvta, isspacep, mapa, getctarank, clocks,
// nop-like statements.
#include <chrono>
#include <cstring>

#include "address_space.h"
#include "lanes.h"
#include "memory_access.h"

namespace fusednorm::emulator {
namespace {

template <class T>
struct Same {
  static T apply(T a) { return a; }
};

void move_wide(Warp& w, const Instruction& i, uint32_t active) {
  for_each_active(active, [&](int lane) {
    std::memcpy(w.file + i.dst + 16 * lane, w.file + i.a + 16 * lane, 16);
  });
}

void move_predicate(Warp& w, const Instruction& i, uint32_t active) {
  write_predicate(w, i.dst, active, i.flags ? ~w.predicate(i.a) : w.predicate(i.a));
}

// {a, b, ..} -> d and back: list holds the parts, width is the bytes of one.
void pack(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t bytes = uint32_t{i.width} * i.count;
  if (i.count == 2 && i.width == 4 && active == kFullMask) {
    const uint32_t *low = w.reg<uint32_t>(i.list[0]), *high = w.reg<uint32_t>(i.list[1]);
    uint64_t* d = w.reg<uint64_t>(i.dst);
    for (int lane = 0; lane < 32; ++lane) d[lane] = uint64_t{high[lane]} << 32 | low[lane];
    return;
  }
  if (i.count == 2 && i.width == 2 && active == kFullMask) {
    const uint16_t *low = w.reg<uint16_t>(i.list[0]), *high = w.reg<uint16_t>(i.list[1]);
    uint32_t* d = w.reg<uint32_t>(i.dst);
    for (int lane = 0; lane < 32; ++lane) d[lane] = uint32_t{high[lane]} << 16 | low[lane];
    return;
  }
  for_each_active(active, [&](int lane) {
    uint8_t value[16];
    for (int k = 0; k < i.count; ++k)
      std::memcpy(value + k * i.width, w.file + i.list[k] + i.register_width * lane, i.width);
    std::memcpy(w.file + i.dst + bytes * static_cast<uint32_t>(lane), value, bytes);
  });
}
void unpack(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t bytes = uint32_t{i.width} * i.count;
  if (i.count == 2 && i.width == 4 && active == kFullMask) {
    uint32_t *low = w.reg<uint32_t>(i.list[0]), *high = w.reg<uint32_t>(i.list[1]);
    const uint64_t* a = w.reg<uint64_t>(i.a);
    for (int lane = 0; lane < 32; ++lane) {
      low[lane] = uint32_t(a[lane]);
      high[lane] = uint32_t(a[lane] >> 32);
    }
    return;
  }
  if (i.count == 2 && i.width == 2 && active == kFullMask) {
    uint16_t *low = w.reg<uint16_t>(i.list[0]), *high = w.reg<uint16_t>(i.list[1]);
    const uint32_t* a = w.reg<uint32_t>(i.a);
    for (int lane = 0; lane < 32; ++lane) {
      low[lane] = uint16_t(a[lane]);
      high[lane] = uint16_t(a[lane] >> 16);
    }
    return;
  }
  for_each_active(active, [&](int lane) {
    uint8_t value[16];
    std::memcpy(value, w.file + i.a + bytes * static_cast<uint32_t>(lane), bytes);
    for (int k = 0; k < i.count; ++k)
      std::memcpy(w.file + i.list[k] + i.register_width * lane, value + k * i.width, i.width);
  });
}

// The device's clock counts the statements a warp has executed: it moves, it is reproducible, it is
// not time.
void read_clock(Warp& w, const Instruction& i, uint32_t active) {
  uint64_t now = w.executed;
  if (i.flags & 1)
    now = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  if (i.width == 8) {
    for_lanes(w.reg<uint64_t>(i.dst), active, [=](int) { return now; });
  } else {
    for_lanes(w.reg<uint32_t>(i.dst), active,
              [=](int) { return uint32_t(i.flags & 2 ? now >> 32 : now); });
  }
}

bool decode_clock(Decoder& d, Instruction& out, const Operand& operand, Type type) {
  if (operand.kind != Operand::Kind::Name) return false;
  const std::string& name = operand.name;
  if (name != "%clock" && name != "%clock64" && name != "%clock_hi" && name != "%globaltimer" &&
      name != "%globaltimer_lo" && name != "%globaltimer_hi")
    return false;
  out.flags = static_cast<uint8_t>((name.find("global") != std::string::npos ? 1 : 0) |
                                   (name.find("hi") != std::string::npos ? 2 : 0));
  out.width = static_cast<uint8_t>(byte_size(type));
  out.handler = read_clock;
  out.dst = d.destination(d.operand(0), type);
  return true;
}

void decode_mov(Decoder& d, Form& form, Instruction& out) {
  out.cost = 0;
  const Type type = form.take_type();
  if (!is_bits(type) && !is_integer(type) && type != Type::B128 && type != Type::F32 &&
      type != Type::F64 && type != Type::Pred)
    form.unsupported();
  const Operand &to = d.operand(0), &from = d.operand(1);
  if (type == Type::Pred) {
    bool negated = false;
    out.handler = move_predicate;
    out.dst = d.predicate_destination(to);
    if (from.kind == Operand::Kind::Name) {
      out.a = d.source(from, Type::Pred);
    } else {
      out.a = d.predicate_source(from, negated);
    }
    out.flags = negated;
    return;
  }
  const int bytes = byte_size(type);
  if (to.kind == Operand::Kind::List || from.kind == Operand::Kind::List) {
    const bool packing = from.kind == Operand::Kind::List;
    const Operand& parts = packing ? from : to;
    out.count = static_cast<uint8_t>(parts.list.size());
    if (out.count != 2 && out.count != 4) form.unsupported();
    out.width = static_cast<uint8_t>(bytes / out.count);
    const Type part = out.width == 1   ? Type::B8
                      : out.width == 2 ? Type::B16
                      : out.width == 4 ? Type::B32
                                       : Type::B64;
    for (int k = 0; k < out.count; ++k) {
      int have = 0;
      out.list[k] = packing ? d.source_any(parts.list[k], have, part)
                            : d.destination_any(parts.list[k], have, out.width);
      if (parts.list[k].kind != Operand::Kind::Register) have = out.width;
      if (out.register_width && out.register_width != have)
        form.unsupported("parts of different sizes");
      out.register_width = static_cast<uint8_t>(have);
    }
    out.handler = packing ? pack : unpack;
    if (packing) {
      out.dst = d.destination(to, type);
    } else {
      out.a = d.source(from, type);
    }
    return;
  }
  if (decode_clock(d, out, from, type)) return;
  if (bytes == 16) {
    out.handler = move_wide;
  } else {
    out.handler = FUSEDNORM_SELECT_UNSIGNED(unary_handler, type, Same);
  }
  decode_unary(d, out, type);
}

// immediate: what to add to get to (or from) the generic address
void convert_address(Warp& w, const Instruction& i, uint32_t active) {
  const uint64_t* a = w.reg<uint64_t>(i.a);
  for_lanes(w.reg<uint64_t>(i.dst), active,
            [=, add = static_cast<uint64_t>(i.immediate)](int lane) { return a[lane] + add; });
}
void convert_address_narrow(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t* a = w.reg<uint32_t>(i.a);
  for_lanes(w.reg<uint32_t>(i.dst), active, [=](int lane) { return a[lane]; });
}

uint64_t window_of(Form& form) {
  if (form.take_one({"shared", "shared::cta", "shared::cluster"}) >= 0) return kSharedWindow;
  if (form.take("local")) return kLocalWindow;
  if (form.take_one({"param", "param::entry"}) >= 0) return kParamWindow;
  if (form.take_one({"global", "const"}) >= 0) return 0;
  form.unsupported();
}

bool is_address(Type type) {
  return type == Type::U32 || type == Type::U64;
}

// flags: 1 own block's shared memory only, 2 constant memory, which lies among the global
void is_in_window(Warp& w, const Instruction& i, uint32_t active) {
  const uint64_t* a = w.reg<uint64_t>(i.a);
  const uint64_t window = static_cast<uint64_t>(i.immediate);
  uint32_t value = 0;
  for (int lane = 0; lane < 32; ++lane) {
    bool inside = window
                      ? in_window(a[lane], window)
                      : !in_window(a[lane], kSharedWindow) && !in_window(a[lane], kLocalWindow) &&
                            !in_window(a[lane], kParamWindow);
    if (inside && !window) {
      const Allocation* at = w.launch->memory->find_live(a[lane], 1);
      inside = (at && at->kind == MemoryKind::Constant) == ((i.flags & 2) != 0);
    }
    if (i.flags & 1) {
      const uint32_t rank = uint32_t(a[lane]) >> kClusterRankShift;
      inside = inside && (rank == 0 || rank == w.block->rank + 1);
    }
    value |= uint32_t{inside} << lane;
  }
  write_predicate(w, i.dst, active, value);
}

template <class T>
void map_to_rank(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const uint32_t* b = w.reg<uint32_t>(i.b);
  T* d = w.reg<T>(i.dst);
  for_each_active(active, [&](int lane) {
    const T offset = a[lane] & ((T(1) << kClusterRankShift) - 1);
    if (b[lane] >= w.block->cluster->blocks.size())
      fault(kErrorIllegalAddress,
            "mapa to rank " + std::to_string(b[lane]) + " of a cluster of " +
                std::to_string(w.block->cluster->blocks.size()) + " blocks",
            lane);
    T mapped = offset | T(b[lane] + 1) << kClusterRankShift;
    if (i.space == Space::Generic && sizeof(T) == 8) mapped |= static_cast<T>(kSharedWindow);
    d[lane] = mapped;
  });
}

template <class T>
void rank_of_address(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  for_lanes(w.reg<uint32_t>(i.dst), active, [&](int lane) {
    const uint32_t rank = uint32_t(a[lane]) >> kClusterRankShift;
    return rank ? rank - 1 : w.block->rank;
  });
}

void no_operation(Warp&, const Instruction&, uint32_t) {}
void wait_for_earlier_launches(Warp& w, const Instruction&, uint32_t active) {
  Knowledge over;
  over.dependency_met = true;
  take_knowledge(w, active, over);
}
void let_later_launches_start(Warp& w, const Instruction&, uint32_t) {
  if (!w.launch->unfinished.empty() && !w.order.known.dependency_met)
    w.launch->triggered_early = true;
}
void trap(Warp&, const Instruction&, uint32_t active) {
  fault(kErrorLaunchFailure, "trap: the kernel gave up", __builtin_ctz(active));
}
void yield(Warp& w, const Instruction&, uint32_t) {
  w.yielded = true;
}

}  // namespace

void add_move_opcodes(OpcodeTable& table) {
  table["mov"] = decode_mov;
  table["cvta"] = [](Decoder& d, Form& form, Instruction& out) {
    const bool to = form.take("to");
    const uint64_t window = window_of(form);
    const Type type = form.take_type();
    if (!is_address(type)) form.unsupported();
    out.cost = 0;
    out.handler = type == Type::U32 ? convert_address_narrow : convert_address;
    out.immediate = static_cast<int64_t>(to ? 0 - window : window);
    decode_unary(d, out, type);
  };
  table["isspacep"] = [](Decoder& d, Form& form, Instruction& out) {
    out.flags = form.take("shared::cta") ? 1 : form.has("const") ? 2 : 0;
    out.immediate = static_cast<int64_t>(out.flags == 1 ? kSharedWindow : window_of(form));
    out.handler = is_in_window;
    out.dst = d.predicate_destination(d.operand(0));
    out.a = d.source(d.operand(1), Type::U64);
  };
  table["mapa"] = [](Decoder& d, Form& form, Instruction& out) {
    if (form.take("shared::cluster")) out.space = Space::Shared;
    const Type type = form.take_type();
    if (!is_address(type)) form.unsupported();
    out.handler = byte_size(type) == 4 ? map_to_rank<uint32_t> : map_to_rank<uint64_t>;
    decode_unary(d, out, type);
    out.b = d.source(d.operand(2), Type::U32);
  };
  table["getctarank"] = [](Decoder& d, Form& form, Instruction& out) {
    form.take("shared::cluster");
    const Type type = form.take_type();
    if (!is_address(type)) form.unsupported();
    out.handler = byte_size(type) == 4 ? rank_of_address<uint32_t> : rank_of_address<uint64_t>;
    out.dst = d.destination(d.operand(0), Type::U32);
    out.a = d.source(d.operand(1), type);
  };
  table["trap"] = [](Decoder&, Form&, Instruction& out) { out.handler = trap; };
  table["brkpt"] = [](Decoder&, Form&, Instruction& out) { out.handler = no_operation; };
  table["pmevent"] = [](Decoder&, Form& form, Instruction& out) {
    form.ignore_one({"mask"});
    out.handler = no_operation;
  };
  table["nanosleep"] = [](Decoder&, Form& form, Instruction& out) {
    if (form.take_type() != Type::U32) form.unsupported();
    out.handler = yield;
  };
  // Launches of one stream never overlap here; what could go wrong if they did is looked for
  // (global_races.h).
  table["griddepcontrol"] = [](Decoder&, Form& form, Instruction& out) {
    const int step = form.take_one({"wait", "launch_dependents"});
    if (step < 0) form.unsupported();
    out.handler = step == 0 ? wait_for_earlier_launches : let_later_launches_start;
  };
  // A warpgroup's registers and L2 policies are advice.
  table["setmaxnreg"] = [](Decoder&, Form& form, Instruction& out) {
    if (form.take_one({"inc", "dec"}) < 0 || !form.take("sync") || !form.take("aligned") ||
        form.take_type() != Type::U32)
      form.unsupported();
    out.handler = no_operation;
  };
  table["createpolicy"] = [](Decoder& d, Form& form, Instruction& out) {
    const int policy = form.take_one(
        {"L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"});
    if (!form.take("fractional") || policy < 0 || form.take_type() != Type::B64) form.unsupported();
    out.handler = no_operation;
    out.dst = d.destination(d.operand(0), Type::B64);
  };
}

}  // namespace fusednorm::emulator
