#include <algorithm>
#include <string>

#include "core/language/idioms/idiom.h"
#include "core/language/idioms/lift_idioms.h"
#include "core/language/lift/syntax.h"
#include "core/language/lift/token.h"
#include "core/support/control.h"

namespace tile::lift {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), tokens_(tokenize(text)) {}

  ProgramSyntax program() {
    if (peek().kind == TokenKind::end) {
      fail(Stage::parse, "syntax", {}, "the program is empty: expected `val NAME = fun(...)`");
    }
    while (peek().kind != TokenKind::end) definition();
    return std::move(out_);
  }

 private:
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool accept(std::string_view symbol) {
    if (!peek().is(symbol)) return false;
    take();
    return true;
  }
  uint32_t last_end() const { return at_ == 0 ? 0 : tokens_[at_ - 1].span.end; }

  [[noreturn]] void fail_expected(const std::string& what) const {
    const Token& token = peek();
    bool end = token.kind == TokenKind::end;
    std::string found =
        end ? "the end of the text" : "`" + std::string(token.text.substr(0, 40)) + "`";
    fail(Stage::parse, "syntax", token.span, "expected " + what + ", found " + found,
         unexpected_hint());
  }

  // Of the token that an expression does not go on with.
  std::string unexpected_hint() const {
    const Token& token = peek();
    const Token& before = tokens_[at_ > 0 ? at_ - 1 : 0];
    // Names in a bracket are told from a lambda's parameters by what follows it.
    size_t ahead = 0;
    while (peek(ahead).is(",") && peek(ahead + 1).kind == TokenKind::name) ahead += 2;
    if (ahead > 0 && peek(ahead).is(",") && peek(ahead + 1).is(")")) {
      return std::string(kTrailingComma);
    }
    std::string_view foreign = symbols_hint(before.text, token.text, peek(1).text);
    if (!foreign.empty()) return std::string(foreign);
    constexpr std::string_view kProgram = "a program is val f = fun(ArrayType(Float, N), a => …)";
    if (out_.nodes.empty() || (before.is(")") && token.is(")"))) return std::string(kProgram);
    for (const Token* word : {&token, &before}) {
      if (std::string_view hint = word_hint(word->text); !hint.empty()) return std::string(hint);
    }
    bool component = token.kind == TokenKind::real && token.text.starts_with(".");
    if (component) return std::string(symbol_hint("."));
    bool value = before.kind == TokenKind::name || before.is(")");
    if (value && token.kind == TokenKind::name) {
      for (size_t i = at_; i > 0 && !tokens_[i].is("=>"); --i) {
        if (tokens_[i].is("if")) return std::string(word_hint("if"));
      }
      return "a function is applied by $: Map(f) $ a";
    }
    return std::string(symbol_hint(token.text));
  }

  void expect(std::string_view symbol, const std::string& where) {
    if (!accept(symbol)) fail_expected("`" + std::string(symbol) + "` " + where);
  }
  NameSyntax name(const std::string& what) {
    if (peek().kind != TokenKind::name) fail_expected(what);
    const Token& token = take();
    return {token.text, token.span};
  }

  SyntaxId add(Syntax node, uint32_t begin) {
    checkpoint();
    node.span = {begin, last_end()};
    out_.nodes.push_back(std::move(node));
    return static_cast<SyntaxId>(out_.nodes.size()) - 1;
  }
  void enter() {
    int64_t most = std::min<int64_t>(kMaxNesting, limits().nesting);
    if (++nesting_ > most) {
      fail(Stage::parse, "limit", peek().span,
           "the program nests deeper than " + std::to_string(most) + " levels");
    }
  }
  void leave() { --nesting_; }

  void definition() {
    expect("val", "before a definition");
    NameSyntax defined = name("the name of the definition");
    for (const DefinitionSyntax& d : out_.definitions) {
      if (d.name.text != defined.text) continue;
      fail(Stage::parse, "name", defined.span,
           "`" + std::string(defined.text) + "` is defined twice");
    }
    expect("=", "after the name of the definition");
    SyntaxId value = application();
    accept(";");
    out_.definitions.push_back({defined, value});
  }

  // A chain of `symbol` over `part`, as one node.
  template <class Part>
  SyntaxId chain(std::string_view symbol, SyntaxKind kind, Part part) {
    uint32_t begin = peek().span.begin;
    Syntax node;
    node.kind = kind;
    node.args = {part()};
    while (accept(symbol)) node.args.push_back(part());
    return node.args.size() == 1 ? node.args[0] : add(std::move(node), begin);
  }

  SyntaxId application() {
    enter();
    SyntaxId id = chain("$", SyntaxKind::application, [this] { return composition(); });
    leave();
    return id;
  }
  SyntaxId composition() {
    return chain("o", SyntaxKind::composition, [this] { return conditional(); });
  }

  SyntaxId conditional() {
    uint32_t begin = peek().span.begin;
    SyntaxId condition = binary(1);
    if (!accept("?")) return condition;
    enter();
    Syntax node;
    node.kind = SyntaxKind::conditional;
    node.args = {condition, conditional(), -1};
    expect(":", "between the two arms of `?`");
    node.args[2] = conditional();
    leave();
    return add(std::move(node), begin);
  }

  SyntaxId binary(int least) {
    uint32_t begin = peek().span.begin;
    SyntaxId left = unary();
    for (int count = 0;; ++count) {
      if (peek().kind != TokenKind::punctuation) return left;
      std::optional<Op> op = find_binary_operator(peek().text);
      if (!op || precedence(*op) < least) return left;
      if (count > kMaxOperators) {
        fail(Stage::parse, "limit", peek().span,
             "more than " + std::to_string(kMaxOperators) + " operators in one expression");
      }
      take();
      Syntax node;
      node.kind = SyntaxKind::operation;
      node.op = *op;
      enter();
      node.args = {left, binary(precedence(*op) + 1)};
      leave();
      left = add(std::move(node), begin);
    }
  }

  SyntaxId unary() {
    uint32_t begin = peek().span.begin;
    bool minus = peek().is("-");
    if (!minus && !peek().is("!")) return postfix();
    take();
    enter();
    Syntax node;
    node.kind = SyntaxKind::operation;
    node.op = minus ? Op::neg : Op::logical_not;
    node.args = {unary()};
    leave();
    return add(std::move(node), begin);
  }

  SyntaxId postfix() {
    uint32_t begin = peek().span.begin;
    SyntaxId id = primary();
    for (int count = 0; peek().is("("); ++count) {
      if (count > kMaxNesting) enter();
      take();
      Syntax node;
      node.kind = SyntaxKind::call;
      node.args = {id};
      if (!accept(")")) {
        do {
          node.args.push_back(application());
        } while (accept(","));
        expect(")", "after the parameters");
      }
      id = add(std::move(node), begin);
    }
    return id;
  }

  SyntaxId primary() {
    const Token& token = peek();
    if (at_lambda()) return lambda();
    Syntax node;
    switch (token.kind) {
      case TokenKind::integer:
        node.kind = SyntaxKind::integer;
        node.integer = token.integer;
        break;
      case TokenKind::real:
        node.kind = SyntaxKind::real;
        node.real = token.real;
        break;
      case TokenKind::name:
        if (token.text == "val" || token.text == "o") fail_expected("an expression");
        node.kind = SyntaxKind::name;
        node.text = token.text;
        break;
      default:
        if (!token.is("(")) fail_expected("an expression");
        take();
        SyntaxId inner = application();
        expect(")", "to close the bracket");
        return inner;
    }
    take();
    return add(std::move(node), token.span.begin);
  }

  bool at_lambda() const {
    if (peek().kind == TokenKind::name) return peek(1).is("=>");
    if (!peek().is("(")) return false;
    size_t ahead = 1;
    while (peek(ahead).kind == TokenKind::name) {
      if (peek(ahead + 1).is(")")) return peek(ahead + 2).is("=>");
      if (!peek(ahead + 1).is(",")) return false;
      ahead += 2;
    }
    return false;
  }

  SyntaxId lambda() {
    uint32_t begin = peek().span.begin;
    Syntax node;
    node.kind = SyntaxKind::lambda;
    if (accept("(")) {
      do {
        node.params.push_back(name("a parameter"));
      } while (accept(","));
      expect(")", "after the parameters");
    } else {
      node.params.push_back(name("a parameter"));
    }
    for (size_t i = 0; i < node.params.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (node.params[i].text != node.params[j].text) continue;
        fail(Stage::parse, "name", node.params[i].span,
             "two parameters are called `" + std::string(node.params[i].text) + "`");
      }
    }
    expect("=>", "after the parameters");
    node.args = {application()};
    return add(std::move(node), begin);
  }

  std::string_view text_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  ProgramSyntax out_;
};

}  // namespace

ProgramSyntax parse_syntax(std::string_view text) { return Parser(text).program(); }

}  // namespace tile::lift
