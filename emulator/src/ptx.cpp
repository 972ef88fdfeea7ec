// SPDX-License-Identifier: Apache-2.0
// Small queries on a parsed PTX module.
#include "ptx.h"

#include <utility>

namespace fusednorm::emulator {

namespace {
struct TypeName {
  std::string_view name;
  Type type;
  int bytes;
};
constexpr TypeName kTypes[] = {
    {"pred", Type::Pred, 0},   {"b8", Type::B8, 1},       {"b16", Type::B16, 2},
    {"b32", Type::B32, 4},     {"b64", Type::B64, 8},     {"b128", Type::B128, 16},
    {"u8", Type::U8, 1},       {"u16", Type::U16, 2},     {"u32", Type::U32, 4},
    {"u64", Type::U64, 8},     {"s8", Type::S8, 1},       {"s16", Type::S16, 2},
    {"s32", Type::S32, 4},     {"s64", Type::S64, 8},     {"f16", Type::F16, 2},
    {"f16x2", Type::F16X2, 4}, {"bf16", Type::BF16, 2},   {"bf16x2", Type::BF16X2, 4},
    {"f32", Type::F32, 4},     {"f32x2", Type::F32X2, 8}, {"f64", Type::F64, 8}};
}  // namespace

int byte_size(Type type) {
  for (const TypeName& entry : kTypes)
    if (entry.type == type) return entry.bytes;
  return 0;
}

Type type_from_name(std::string_view name) {
  for (const TypeName& entry : kTypes)
    if (entry.name == name) return entry.type;
  return Type::None;
}

std::string Statement::text() const {
  std::string out;
  for (const std::string& part : opcode) out += (out.empty() ? "" : ".") + part;
  return out;
}

int Function::find_label(int scope, const std::string& label) const {
  for (; scope >= 0; scope = scope_parent[scope])
    for (const Label& candidate : labels)
      if (candidate.scope == scope && candidate.name == label) return candidate.statement;
  return -1;
}

std::string Module::describe_location(int location) const {
  std::string out;
  for (int depth = 0; location >= 0 && depth < 16; location = locations[location].parent, ++depth) {
    const auto file = files.find(locations[location].file);
    if (depth > 0) out += ", inlined at ";
    out +=
        (file == files.end() ? "?" : file->second) + ":" + std::to_string(locations[location].line);
  }
  return out;
}

PtxError::PtxError(int at, const std::string& what)
    : std::runtime_error("PTX line " + std::to_string(at) + ": " + what), line(at) {}

}  // namespace fusednorm::emulator
