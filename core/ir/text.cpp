#include "core/ir/text.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace tile {
namespace {

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '\'' || c == '.';
}

}  // namespace

void TextReader::skip_space() {
  const std::string& text = source_->text;
  while (at_ < text.size()) {
    if (std::isspace(static_cast<unsigned char>(text[at_])) != 0) {
      ++at_;
    } else if (text[at_] == '#') {
      while (at_ < text.size() && text[at_] != '\n') ++at_;
    } else {
      return;
    }
  }
}

void TextReader::wrong(const std::string& expected) const {
  auto at = static_cast<uint32_t>(at_);
  tile::fail(Stage::parse, "syntax", {at, at + 1}, "expected " + expected);
}

bool TextReader::peek(std::string_view token) const {
  if (!rest().starts_with(token)) return false;
  bool word = in_word(token.back()) && starts_word(token.front());
  return !word || rest().size() == token.size() || !in_word(rest()[token.size()]);
}

bool TextReader::accept(std::string_view token) {
  if (!peek(token)) return false;
  at_ += token.size();
  skip_space();
  return true;
}

void TextReader::expect(std::string_view token) {
  if (!accept(token)) wrong("\"" + std::string(token) + "\"");
}

std::string TextReader::name() {
  std::string_view text = rest();
  if (text.empty() || !starts_word(text[0])) wrong("a name");
  size_t size = 1;
  while (size < text.size() && in_word(text[size])) ++size;
  std::string result(text.substr(0, size));
  at_ += size;
  skip_space();
  return result;
}

int64_t TextReader::integer() {
  std::string_view text = rest();
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) wrong("a 64-bit integer");
  at_ += static_cast<size_t>(end - text.data());
  skip_space();
  return value;
}

double TextReader::real() {
  // The source text is null-terminated, which strtod needs.
  const char* begin = source_->text.c_str() + at_;
  char* end = nullptr;
  double value = std::strtod(begin, &end);
  if (end == begin) wrong("a number");
  at_ += static_cast<size_t>(end - begin);
  skip_space();
  return value;
}

Rational TextReader::rational() {
  int64_t num = integer();
  return accept("/") ? Rational(num, integer()) : Rational(num);
}

Expr TextReader::expression() {
  std::string_view text = rest();
  int depth = 0;
  size_t size = 0;
  for (; size < text.size(); ++size) {
    char c = text[size];
    if (c == '(' || c == '[') ++depth;
    if ((c == ')' || c == ']') && --depth < 0) break;
    if (depth == 0 && (c == ',' || c == ';' || c == '{' || c == '\n')) break;
    if (depth == 0 && c == '.' && text.substr(size).starts_with("..")) break;
  }
  if (size == 0) wrong("an expression");
  Expr e = parse_expr(text.substr(0, size));
  at_ += size;
  skip_space();
  return e;
}

std::vector<int64_t> TextReader::integers() {
  std::vector<int64_t> values;
  expect("[");
  while (!accept("]")) {
    if (!values.empty()) expect(",");
    values.push_back(integer());
  }
  return values;
}

std::vector<Expr> TextReader::expressions() {
  std::vector<Expr> values;
  expect("[");
  while (!accept("]")) {
    if (!values.empty()) expect(",");
    values.push_back(expression());
  }
  return values;
}

DType TextReader::type() {
  std::optional<DType> t = parse_dtype(name());
  if (!t) wrong("an element type");
  return *t;
}

std::string print_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  if (std::strtod(buffer, nullptr) != value) std::snprintf(buffer, sizeof buffer, "%a", value);
  return buffer;
}

std::string print_integers(const std::vector<int64_t>& values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return out + "]";
}

std::string print_expressions(const std::vector<Expr>& values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i == 0 ? "" : ", ") + to_string(values[i]);
  return out + "]";
}

}  // namespace tile
