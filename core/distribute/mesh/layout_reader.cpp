#include "core/distribute/mesh/layout_reader.h"

#include <charconv>
#include <limits>

#include "core/support/control.h"

namespace tile {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool in_name(char c) { return starts_name(c) || is_digit(c) || c == '\''; }
bool separates(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';'; }

Span span_of(size_t begin, size_t end) {
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

}  // namespace

LayoutReader::LayoutReader(SourcePtr source) : source_(std::move(source)) {
  if (text().size() > std::numeric_limits<uint32_t>::max()) {
    fail(Stage::parse, "limit", {}, "the text has more than 4 GiB");
  }
  skip();
}

void LayoutReader::skip() {
  while (!at_end()) {
    if (text()[at_] == '#') {
      while (!at_end() && text()[at_] != '\n') ++at_;
    } else if (separates(text()[at_])) {
      ++at_;
    } else {
      return;
    }
  }
}

bool LayoutReader::accept(char symbol) {
  if (!peek(symbol)) return false;
  ++at_;
  skip();
  return true;
}

void LayoutReader::expect(char symbol, const std::string& expected) {
  if (!accept(symbol)) wrong(expected);
}

Word LayoutReader::name(const std::string& expected) {
  checkpoint();
  if (at_end() || !starts_name(text()[at_])) wrong(expected);
  size_t begin = at_;
  while (!at_end() && in_name(text()[at_])) ++at_;
  Word word{text().substr(begin, at_ - begin), span_of(begin, at_)};
  skip();
  return word;
}

Number LayoutReader::number(const std::string& expected) {
  checkpoint();
  if (at_end() || !is_digit(text()[at_])) wrong(expected);
  size_t begin = at_;
  while (!at_end() && is_digit(text()[at_])) ++at_;
  Number number;
  number.span = span_of(begin, at_);
  auto [end, error] = std::from_chars(&text()[begin], text().data() + at_, number.value);
  if (error != std::errc()) {
    fail(Stage::parse, "syntax", number.span, "the number does not fit in 64 bits");
  }
  skip();
  return number;
}

Span LayoutReader::here() const { return span_of(at_, at_end() ? at_ : at_ + 1); }

void LayoutReader::wrong(const std::string& expected) const {
  std::string found = at_end() ? "the end of the text" : "`" + text().substr(at_, 1) + "`";
  bool printable = at_end() || (text()[at_] > ' ' && text()[at_] < 127);
  if (!printable) found = "another character";
  fail(Stage::parse, "syntax", here(), "expected " + expected + ", found " + found);
}

}  // namespace tile
