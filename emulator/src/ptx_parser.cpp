// Parses PTX text (one module) into declarations and statements; knows the grammar, not the opcodes.
#include <cstdlib>
#include <cstring>

#include "ptx.h"
#include "ptx_lexer.h"

namespace fusednorm::emulator {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(tokenize_ptx(text)) {}

  Module parse() {
    while (peek().kind != Token::Kind::End) parse_top_level();
    if (module_.version.empty()) fail("no .version directive: this is not a PTX module");
    return std::move(module_);
  }

 private:
  const Token& peek(int ahead = 0) const {
    const size_t index = at_ + ahead;
    return tokens_[index < tokens_.size() ? index : tokens_.size() - 1];
  }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool accept(std::string_view text) {
    if (!peek().is(text)) return false;
    next();
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const { throw PtxError(peek().line, what); }
  void expect(std::string_view text) {
    if (!accept(text))
      fail("expected '" + std::string(text) + "' but found '" + std::string(peek().text) + "'");
  }
  std::string word() {
    if (peek().kind != Token::Kind::Word) fail("expected a name but found '" + std::string(peek().text) + "'");
    return std::string(next().text);
  }
  int64_t integer() {
    const bool minus = accept("-");
    if (peek().kind != Token::Kind::Number) fail("expected a number but found '" + std::string(peek().text) + "'");
    std::string digits(next().text);
    const uint64_t value = digits.size() > 2 && digits[0] == '0' && (digits[1] == 'b' || digits[1] == 'B')
                               ? std::strtoull(digits.c_str() + 2, nullptr, 2)
                               : std::strtoull(digits.c_str(), nullptr, 0);
    return static_cast<int64_t>(minus ? 0 - value : value);
  }

  // ---- module level
  void parse_top_level() {
    const Token& token = peek();
    if (token.is(".version")) {
      next();
      module_.version = std::string(next().text);
    } else if (token.is(".target")) {
      next();
      module_.target = word();
      while (accept(",")) word();
    } else if (token.is(".address_size")) {
      next();
      if (integer() != 64) fail("only 64-bit PTX is supported");
    } else if (token.is(".file")) {
      parse_file();
    } else if (token.is(".loc")) {
      parse_loc();
    } else if (token.is(".section")) {
      while (!peek().is("{")) next();
      skip_braces();
    } else if (token.is(".pragma")) {
      while (!accept(";")) next();
    } else {
      parse_declaration();
    }
  }

  void parse_file() {
    next();
    const int index = static_cast<int>(integer());
    module_.files[index] = std::string(next().text);
    while (accept(",")) integer();
  }

  void parse_loc() {
    const int line = peek().line;
    next();
    SourceLocation location;
    location.file = static_cast<int>(integer());
    location.line = static_cast<int>(integer());
    integer();
    while (peek().line == line && accept(",")) {
      const std::string what = word();
      if (what == "function_name") {
        word();
        if (accept("+")) integer();
      } else if (what == "inlined_at") {
        // The place is the last one seen with this file and line, so that whole chains are kept.
        const int file = static_cast<int>(integer());
        const int at = static_cast<int>(integer());
        integer();
        location.parent = find_location(file, at);
      }
    }
    module_.locations.push_back(location);
    location_ = static_cast<int>(module_.locations.size()) - 1;
  }

  int find_location(int file, int line) {
    const int count = static_cast<int>(module_.locations.size());
    for (int i = count - 1; i >= 0 && i > count - 64; --i)
      if (module_.locations[i].file == file && module_.locations[i].line == line) return i;
    module_.locations.push_back({file, line, -1});
    return count;
  }

  void skip_braces() {
    int depth = 0;
    do {
      if (peek().kind == Token::Kind::End) fail("a '{' is not closed");
      if (peek().is("{")) ++depth;
      if (peek().is("}")) --depth;
      next();
    } while (depth > 0);
  }

  void parse_declaration() {
    bool is_extern = false;
    for (;;) {
      if (accept(".visible") || accept(".weak") || accept(".common")) continue;
      if (accept(".extern")) {
        is_extern = true;
        continue;
      }
      break;
    }
    if (accept(".entry")) {
      parse_function(true);
    } else if (accept(".func")) {
      parse_function(false);
    } else if (space_ahead()) {
      for (Variable& variable : parse_variables(is_extern)) module_.variables.push_back(std::move(variable));
    } else {
      fail("unexpected '" + std::string(peek().text) + "'");
    }
  }

  bool space_ahead() const {
    for (const char* name : {".global", ".const", ".shared", ".local", ".param"})
      if (peek().is(name)) return true;
    return false;
  }

  Space space() {
    const std::string name = word();
    if (name == ".global") return Space::Global;
    if (name == ".const") return Space::Const;
    if (name == ".shared") return Space::Shared;
    if (name == ".local") return Space::Local;
    if (name == ".param") return Space::Param;
    fail("expected a state space but found '" + name + "'");
  }

  // .space [.align n] [.attribute(..)] .type name[dims] [= initial], ...;   (the ';' included)
  std::vector<Variable> parse_variables(bool is_extern) {
    Variable shape = parse_variable_head();
    std::vector<Variable> variables;
    do {
      Variable variable = shape;
      parse_variable_tail(variable);
      variable.is_extern = is_extern;
      if (accept("=")) parse_initial(variable);
      variables.push_back(std::move(variable));
    } while (accept(","));
    expect(";");
    return variables;
  }

  Variable parse_variable_head() {
    Variable variable;
    variable.space = space();
    uint32_t align = 0;
    for (;;) {
      if (accept(".align")) {
        align = static_cast<uint32_t>(integer());
      } else if (accept(".attribute")) {
        while (!accept(")")) next();
      } else if (accept(".ptr")) {
        if (space_ahead()) next();
        if (accept(".align")) integer();
      } else {
        const std::string_view text = peek().text;
        const Type type = text.size() > 1 ? type_from_name(text.substr(1)) : Type::None;
        if (type == Type::None || peek().kind != Token::Kind::Word) break;
        variable.type = type;
        next();
      }
    }
    variable.align = align ? align : static_cast<uint32_t>(byte_size(variable.type));
    return variable;
  }

  void parse_variable_tail(Variable& variable) {
    variable.name = word();
    variable.bytes = byte_size(variable.type);
    while (accept("[")) {
      variable.bytes *= peek().is("]") ? 0 : static_cast<uint64_t>(integer());
      expect("]");
    }
  }

  void parse_initial(Variable& variable) {
    variable.initial.assign(variable.bytes, 0);
    uint64_t offset = 0;
    parse_initial_value(variable, offset);
  }

  void parse_initial_value(Variable& variable, uint64_t& offset) {
    if (accept("{")) {
      while (!accept("}")) {
        parse_initial_value(variable, offset);
        accept(",");
      }
      return;
    }
    const uint64_t size = byte_size(variable.type);
    if (offset + size > variable.bytes) fail("too many initial values for " + variable.name);
    if (peek().kind == Token::Kind::Word) {
      Variable::Address address{offset, word(), 0};
      if (address.symbol == "generic") {
        expect("(");
        address.symbol = word();
        expect(")");
      }
      if (accept("+")) address.addend = integer();
      variable.addresses.push_back(address);
    } else {
      const Operand value = number();
      std::memcpy(variable.initial.data() + offset, &value.value, size);
    }
    offset += size;
  }

  // ---- functions
  void parse_function(bool is_entry) {
    Function function;
    function.is_entry = is_entry;
    function.line = peek().line;
    if (!is_entry && accept("(")) parse_parameters(function.results);
    function.name = word();
    if (accept("(")) parse_parameters(function.parameters);
    for (;;) {
      if (accept(".maxntid")) {
        uint32_t size[3] = {1, 1, 1};
        triple(size);
        function.max_threads = size[0] * size[1] * size[2];
      } else if (accept(".reqntid")) {
        triple(function.required_threads);
      } else if (accept(".minnctapersm")) {
        function.min_blocks = static_cast<uint32_t>(integer());
      } else if (accept(".maxnreg")) {
        function.max_registers = static_cast<uint32_t>(integer());
      } else if (accept(".reqnctapercluster")) {
        triple(function.required_cluster);
      } else if (accept(".maxclusterrank")) {
        function.max_cluster_rank = static_cast<uint32_t>(integer());
      } else if (accept(".explicitcluster") || accept(".noreturn") || accept(".blocksareclusters")) {
      } else if (accept(".attribute")) {
        while (!accept(")")) next();
      } else if (accept(".pragma")) {
        while (!accept(";")) next();
      } else {
        break;
      }
    }
    function.is_declaration = accept(";");
    if (!function.is_declaration) parse_body(function);
    const auto known = module_.functions.find(function.name);
    if (known == module_.functions.end() || known->second.is_declaration)
      module_.functions[function.name] = std::move(function);
  }

  void triple(uint32_t out[3]) {
    for (int i = 0; i < 3; ++i) out[i] = 1;
    int i = 0;
    do {
      if (i == 3) fail("more than three dimensions");
      out[i++] = static_cast<uint32_t>(integer());
    } while (accept(","));
  }

  void parse_parameters(std::vector<Variable>& out) {
    while (!accept(")")) {
      if (peek().is(".reg")) fail("register parameters of functions are not supported");
      Variable variable = parse_variable_head();
      parse_variable_tail(variable);
      out.push_back(std::move(variable));
      accept(",");
    }
  }

  struct Scope {
    std::map<std::string, int> registers;
    std::map<std::string, std::string> variables;
    int index;
  };

  void parse_body(Function& function) {
    function_ = &function;
    scopes_.clear();
    location_ = -1;
    function.scope_parent.clear();
    expect("{");
    open_scope();
    for (const Variable& variable : function.parameters) scopes_.back().variables[variable.name] = variable.name;
    for (const Variable& variable : function.results) scopes_.back().variables[variable.name] = variable.name;
    while (!scopes_.empty()) parse_statement();
  }

  void open_scope() {
    function_->scope_parent.push_back(scopes_.empty() ? -1 : scopes_.back().index);
    Scope scope;
    scope.index = static_cast<int>(function_->scope_parent.size()) - 1;
    scopes_.push_back(std::move(scope));
  }

  void parse_statement() {
    const Token& token = peek();
    if (token.kind == Token::Kind::End) fail("the body of " + function_->name + " is not closed");
    if (accept("{")) {
      open_scope();
    } else if (accept("}")) {
      scopes_.pop_back();
    } else if (accept(";")) {
    } else if (token.is(".loc")) {
      parse_loc();
    } else if (token.is(".file")) {
      parse_file();
    } else if (token.is(".pragma")) {
      while (!accept(";")) next();
    } else if (token.is(".reg")) {
      parse_registers();
    } else if (space_ahead()) {
      declare_variables();
    } else if (token.kind == Token::Kind::Word && peek(1).is(":")) {
      parse_label();
    } else {
      parse_instruction();
    }
  }

  void parse_label() {
    const std::string name = word();
    expect(":");
    const int scope = scopes_.back().index;
    if (accept(".branchtargets")) {
      std::vector<std::string>& targets = function_->branch_targets[{scope, name}];
      do targets.push_back(word());
      while (accept(","));
      expect(";");
    } else if (peek().is(".callprototype") || peek().is(".calltargets")) {
      while (!accept(";")) next();
    } else {
      function_->labels.push_back({name, scope, static_cast<int>(function_->body.size())});
    }
  }

  void declare_variables() {
    for (Variable& variable : parse_variables(false)) {
      std::string unique = variable.name;
      if (variable.space == Space::Param || scopes_.size() > 1)
        unique += "@" + std::to_string(function_->variables.size());
      scopes_.back().variables[variable.name] = unique;
      variable.name = unique;
      function_->variables.push_back(std::move(variable));
    }
  }

  void parse_registers() {
    next();
    const std::string type_name = word();
    const Type type = type_from_name(std::string_view(type_name).substr(1));
    if (type == Type::None) fail("unknown register type '" + type_name + "'");
    do {
      const std::string name = word();
      if (accept("<")) {
        const int64_t count = integer();
        expect(">");
        for (int64_t i = 0; i < count; ++i) declare_register(name + std::to_string(i), type);
      } else {
        declare_register(name, type);
      }
    } while (accept(","));
    expect(";");
  }

  void declare_register(const std::string& name, Type type) {
    scopes_.back().registers[name] = static_cast<int>(function_->registers.size());
    function_->registers.push_back(type);
    function_->register_names.push_back(name);
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
    statement.line = peek().line;
    statement.location = location_;
    statement.scope = scopes_.back().index;
    if (accept("@")) {
      statement.guard_negated = accept("!");
      const std::string name = word();
      statement.guard = find_register(name);
      if (statement.guard < 0) fail("undeclared predicate " + name);
    }
    const std::string opcode = word();
    if (opcode[0] == '.') fail("unknown directive " + opcode);
    for (size_t begin = 0; begin <= opcode.size();) {
      const size_t end = std::min(opcode.find('.', begin), opcode.size());
      statement.opcode.push_back(opcode.substr(begin, end - begin));
      begin = end + 1;
    }
    while (!peek().is(";")) {
      statement.operands.push_back(operand());
      if (!peek().is(";")) expect(",");
    }
    expect(";");
    function_->body.push_back(std::move(statement));
  }

  Operand number() {
    Operand out;
    const bool minus = accept("-");
    const std::string_view text = peek().text;
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
      out.kind = Operand::Kind::Float;
      out.is_double = text[1] == 'd' || text[1] == 'D';
      if (text.size() != (out.is_double ? 18u : 10u)) fail("malformed floating-point constant '" + std::string(text) + "'");
      out.value = static_cast<int64_t>(std::strtoull(std::string(text.substr(2)).c_str(), nullptr, 16));
      if (minus) out.value ^= out.is_double ? INT64_MIN : int64_t{1} << 31;
      next();
      return out;
    }
    out.kind = Operand::Kind::Integer;
    out.value = minus ? -integer() : integer();
    return out;
  }

  Operand operand() {
    Operand out;
    if (accept("{")) return list("}");
    if (accept("(")) return list(")");
    if (accept("[")) return memory();
    if (accept("!")) {
      out = operand();
      out.negated = true;
      return out;
    }
    if (peek().kind == Token::Kind::Number || peek().is("-")) return number();
    const std::string name = word();
    if (name == "_") {
      out.kind = Operand::Kind::Sink;
    } else {
      out.reg = find_register(name);
      out.kind = out.reg >= 0 ? Operand::Kind::Register : Operand::Kind::Name;
      out.name = out.reg >= 0 ? name : resolve(name);
    }
    if (out.kind == Operand::Kind::Name && (peek().is("+") || peek().is("-"))) {
      accept("+");
      out.value = integer();
    }
    if (accept("|")) {
      const std::string second = word();
      out.second_reg = find_register(second);
      if (out.second_reg < 0 && second != "_") fail("undeclared register " + second);
      if (out.second_reg < 0) out.second_reg = -2;
    }
    return out;
  }

  Operand list(std::string_view close) {
    Operand out;
    out.kind = Operand::Kind::List;
    while (!accept(close)) {
      out.list.push_back(operand());
      if (!peek().is(close)) expect(",");
    }
    return out;
  }

  Operand memory() {
    Operand out;
    out.kind = Operand::Kind::Memory;
    if (peek().kind == Token::Kind::Word) {
      const std::string name = word();
      out.reg = find_register(name);
      if (out.reg < 0) out.name = resolve(name);
      if (accept("+")) {
        out.value = integer();
      } else if (peek().is("-")) {
        out.value = integer();
      }
    } else {
      out.value = integer();
    }
    expect("]");
    return out;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  Module module_;
  Function* function_ = nullptr;
  std::vector<Scope> scopes_;
  int location_ = -1;
};

}  // namespace

Module parse_ptx(std::string_view text) { return Parser(text).parse(); }

}  // namespace fusednorm::emulator
