// SPDX-License-Identifier: Apache-2.0
// The body of a function: scopes, registers, labels, statements and their operands.
#include "ptx_cursor.h"

namespace fusednorm::emulator {
namespace {

int find_location(Module& module, int file, int line) {
  const int count = static_cast<int>(module.locations.size());
  for (int i = count - 1; i >= 0 && i > count - 64; --i)
    if (module.locations[i].file == file && module.locations[i].line == line) return i;
  module.locations.push_back({file, line, -1});
  return count;
}

class BodyParser {
 public:
  BodyParser(Cursor& cursor, Module& module, Function& function)
      : c_(cursor), module_(module), function_(function) {}

  void parse() {
    function_.scope_parent.clear();
    c_.expect("{");
    open_scope();
    for (const std::vector<Variable>* formals : {&function_.parameters, &function_.results})
      for (const Variable& variable : *formals)
        scopes_.back().variables[variable.name] = variable.name;
    while (!scopes_.empty()) parse_statement();
  }

 private:
  struct Scope {
    std::map<std::string, int> registers;
    std::map<std::string, std::string> variables;
    int index;
  };

  void open_scope() {
    function_.scope_parent.push_back(scopes_.empty() ? -1 : scopes_.back().index);
    Scope scope;
    scope.index = static_cast<int>(function_.scope_parent.size()) - 1;
    scopes_.push_back(std::move(scope));
  }

  void parse_statement() {
    const Token& token = c_.peek();
    if (token.kind == Token::Kind::End) c_.fail("the body of " + function_.name + " is not closed");
    if (c_.accept("{")) {
      open_scope();
    } else if (c_.accept("}")) {
      scopes_.pop_back();
    } else if (c_.accept(";")) {
    } else if (token.is(".loc")) {
      location_ = parse_location(c_, module_);
    } else if (token.is(".file")) {
      parse_file(c_, module_);
    } else if (token.is(".pragma")) {
      c_.skip_past(";");
    } else if (token.is(".reg")) {
      parse_registers();
    } else if (space_ahead(c_)) {
      declare_variables();
    } else if (token.kind == Token::Kind::Word && c_.peek(1).is(":")) {
      parse_label();
    } else {
      parse_instruction();
    }
  }

  void parse_label() {
    const std::string name = c_.word();
    c_.expect(":");
    const int scope = scopes_.back().index;
    if (c_.accept(".branchtargets")) {
      std::vector<std::string>& targets = function_.branch_targets[{scope, name}];
      do targets.push_back(c_.word());
      while (c_.accept(","));
      c_.expect(";");
    } else if (c_.peek().is(".callprototype") || c_.peek().is(".calltargets")) {
      c_.skip_past(";");
    } else {
      function_.labels.push_back({name, scope, static_cast<int>(function_.body.size())});
    }
  }

  void declare_variables() {
    for (Variable& variable : parse_variables(c_, false)) {
      std::string unique = variable.name;
      if (variable.space == Space::Param || scopes_.size() > 1)
        unique += "@" + std::to_string(function_.variables.size());
      scopes_.back().variables[variable.name] = unique;
      variable.name = unique;
      function_.variables.push_back(std::move(variable));
    }
  }

  void parse_registers() {
    c_.next();
    const std::string type_name = c_.word();
    const Type type = type_from_name(std::string_view(type_name).substr(1));
    if (type == Type::None) c_.fail("unknown register type '" + type_name + "'");
    do {
      const std::string name = c_.word();
      if (c_.accept("<")) {
        const int64_t count = c_.integer();
        if (count < 0 || count > 1 << 20) c_.fail("too many registers");
        c_.expect(">");
        for (int64_t i = 0; i < count; ++i) declare_register(name + std::to_string(i), type);
      } else {
        declare_register(name, type);
      }
    } while (c_.accept(","));
    c_.expect(";");
  }

  void declare_register(const std::string& name, Type type) {
    scopes_.back().registers[name] = static_cast<int>(function_.registers.size());
    function_.registers.push_back(type);
    function_.register_names.push_back(name);
  }

  int find_register(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->registers.find(name);
      if (found != scope->registers.end()) return found->second;
    }
    return -1;
  }

  std::string resolve(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->variables.find(name);
      if (found != scope->variables.end()) return found->second;
    }
    return name;
  }

  void parse_instruction() {
    Statement statement;
    statement.line = c_.peek().line;
    statement.location = location_;
    statement.scope = scopes_.back().index;
    if (c_.accept("@")) {
      statement.guard_negated = c_.accept("!");
      const std::string name = c_.word();
      statement.guard = find_register(name);
      if (statement.guard < 0) c_.fail("undeclared predicate " + name);
    }
    const std::string opcode = c_.word();
    if (opcode[0] == '.') c_.fail("unknown directive " + opcode);
    for (size_t begin = 0; begin <= opcode.size();) {
      const size_t end = std::min(opcode.find('.', begin), opcode.size());
      statement.opcode.push_back(opcode.substr(begin, end - begin));
      begin = end + 1;
    }
    while (!c_.peek().is(";")) {
      statement.operands.push_back(operand());
      if (!c_.peek().is(";")) c_.expect(",");
    }
    c_.expect(";");
    function_.body.push_back(std::move(statement));
  }

  Operand operand() {
    Operand out;
    if (c_.accept("{")) return list("}");
    if (c_.accept("(")) return list(")");
    if (c_.accept("[")) return memory();
    if (c_.accept("!")) {
      out = operand();
      out.negated = true;
      return out;
    }
    if (c_.peek().kind == Token::Kind::Number || c_.peek().is("-")) return c_.number();
    const std::string name = c_.word();
    if (name == "_") {
      out.kind = Operand::Kind::Sink;
    } else {
      out.reg = find_register(name);
      out.kind = out.reg >= 0 ? Operand::Kind::Register : Operand::Kind::Name;
      out.name = out.reg >= 0 ? name : resolve(name);
    }
    if (out.kind == Operand::Kind::Name && (c_.peek().is("+") || c_.peek().is("-"))) {
      c_.accept("+");
      out.value = c_.integer();
    }
    if (c_.accept("|")) {
      const std::string second = c_.word();
      out.second_reg = find_register(second);
      if (out.second_reg < 0 && second != "_") c_.fail("undeclared register " + second);
      if (out.second_reg < 0) out.second_reg = -2;
    }
    return out;
  }

  Operand list(std::string_view close) {
    Operand out;
    out.kind = Operand::Kind::List;
    while (!c_.accept(close)) {
      out.list.push_back(operand());
      if (!c_.peek().is(close)) c_.expect(",");
    }
    return out;
  }

  Operand memory() {
    Operand out;
    out.kind = Operand::Kind::Memory;
    if (c_.peek().kind == Token::Kind::Word) {
      const std::string name = c_.word();
      out.reg = find_register(name);
      if (out.reg < 0) out.name = resolve(name);
      if (c_.accept("+")) {
        out.value = c_.integer();
      } else if (c_.peek().is("-")) {
        out.value = c_.integer();
      }
    } else {
      out.value = c_.integer();
    }
    c_.expect("]");
    return out;
  }

  Cursor& c_;
  Module& module_;
  Function& function_;
  std::vector<Scope> scopes_;
  int location_ = -1;
};

}  // namespace

void parse_file(Cursor& c, Module& module) {
  c.next();
  const int index = static_cast<int>(c.integer());
  module.files[index] = std::string(c.next().text);
  while (c.accept(",")) c.integer();
}

int parse_location(Cursor& c, Module& module) {
  const int line = c.peek().line;
  c.next();
  SourceLocation location;
  location.file = static_cast<int>(c.integer());
  location.line = static_cast<int>(c.integer());
  c.integer();
  while (c.peek().line == line && c.accept(",")) {
    const std::string what = c.word();
    if (what == "function_name") {
      c.word();
      if (c.accept("+")) c.integer();
    } else if (what == "inlined_at") {
      // The place is the last one seen with this file and line, so that whole chains are kept.
      const int file = static_cast<int>(c.integer());
      const int at = static_cast<int>(c.integer());
      c.integer();
      location.parent = find_location(module, file, at);
    }
  }
  module.locations.push_back(location);
  return static_cast<int>(module.locations.size()) - 1;
}

void parse_body(Cursor& cursor, Module& module, Function& function) {
  BodyParser(cursor, module, function).parse();
}

}  // namespace fusednorm::emulator
