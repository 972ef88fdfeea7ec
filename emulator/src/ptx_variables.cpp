// SPDX-License-Identifier: Apache-2.0
// Declarations of variables and parameters.
#include <cstring>

#include "ptx_cursor.h"

namespace fusednorm::emulator {
namespace {

Space parse_space(Cursor& c) {
  const std::string name = c.word();
  if (name == ".global") return Space::Global;
  if (name == ".const") return Space::Const;
  if (name == ".shared") return Space::Shared;
  if (name == ".local") return Space::Local;
  if (name == ".param") return Space::Param;
  c.fail("expected a state space but found '" + name + "'");
}

Variable parse_head(Cursor& c) {
  Variable variable;
  variable.space = parse_space(c);
  uint32_t align = 0;
  for (;;) {
    if (c.accept(".align")) {
      align = static_cast<uint32_t>(c.integer());
    } else if (c.accept(".attribute")) {
      c.skip_past(")");
    } else if (c.accept(".ptr")) {
      if (space_ahead(c)) c.next();
      if (c.accept(".align")) c.integer();
    } else {
      const std::string_view text = c.peek().text;
      const Type type = text.size() > 1 ? type_from_name(text.substr(1)) : Type::None;
      if (type == Type::None || c.peek().kind != Token::Kind::Word) break;
      variable.type = type;
      c.next();
    }
  }
  if (byte_size(variable.type) == 0) c.fail("a variable of a type without a size");
  variable.align = align ? align : static_cast<uint32_t>(byte_size(variable.type));
  return variable;
}

void parse_tail(Cursor& c, Variable& variable) {
  variable.name = c.word();
  variable.bytes = byte_size(variable.type);
  while (c.accept("[")) {
    const int64_t count = c.peek().is("]") ? 0 : c.integer();
    // 2^40 bytes are more than any device has.
    if (count < 0 || static_cast<uint64_t>(count) > (1ull << 40) / (variable.bytes + 1))
      c.fail("the variable " + variable.name + " is too large");
    variable.bytes *= static_cast<uint64_t>(count);
    c.expect("]");
  }
}

void parse_initial_value(Cursor& c, Variable& variable, uint64_t& offset) {
  if (c.accept("{")) {
    while (!c.accept("}")) {
      parse_initial_value(c, variable, offset);
      c.accept(",");
    }
    return;
  }
  const uint64_t size = byte_size(variable.type);
  if (offset + size > variable.bytes) c.fail("too many initial values for " + variable.name);
  if (c.peek().kind == Token::Kind::Word) {
    Variable::Address address{offset, c.word(), 0};
    if (address.symbol == "generic") {
      c.expect("(");
      address.symbol = c.word();
      c.expect(")");
    }
    if (c.accept("+")) address.addend = c.integer();
    variable.addresses.push_back(address);
  } else {
    const Operand value = c.number();
    std::memcpy(variable.initial.data() + offset, &value.value, size);
  }
  offset += size;
}

}  // namespace

bool space_ahead(const Cursor& c) {
  for (const char* name : {".global", ".const", ".shared", ".local", ".param"})
    if (c.peek().is(name)) return true;
  return false;
}

std::vector<Variable> parse_variables(Cursor& c, bool is_extern) {
  const Variable shape = parse_head(c);
  std::vector<Variable> variables;
  do {
    Variable variable = shape;
    parse_tail(c, variable);
    variable.is_extern = is_extern;
    if (c.accept("=")) {
      variable.initial.assign(variable.bytes, 0);
      uint64_t offset = 0;
      parse_initial_value(c, variable, offset);
    }
    variables.push_back(std::move(variable));
  } while (c.accept(","));
  c.expect(";");
  return variables;
}

void parse_parameters(Cursor& c, std::vector<Variable>& out) {
  while (!c.accept(")")) {
    if (c.peek().is(".reg")) c.fail("register parameters of functions are not supported");
    Variable variable = parse_head(c);
    parse_tail(c, variable);
    out.push_back(std::move(variable));
    c.accept(",");
  }
}

}  // namespace fusednorm::emulator
