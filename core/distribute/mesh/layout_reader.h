// The tokens of meshes and layouts, with their places in the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/support/diagnostic.h"

namespace tile {

struct Word {
  std::string text;
  Span span;
};
struct Number {
  int64_t value = 0;
  Span span;
};

// Spaces, line ends, semicolons and comments from `#` to the end of a line separate tokens.
class LayoutReader {
 public:
  explicit LayoutReader(SourcePtr source);

  bool at_end() const { return at_ == text().size(); }
  bool peek(char symbol) const { return !at_end() && text()[at_] == symbol; }
  bool accept(char symbol);
  void expect(char symbol, const std::string& expected);
  // A name of letters, digits, `_` and `'` that begins with no digit.
  Word name(const std::string& expected);
  Number number(const std::string& expected);  // without a sign
  Span here() const;                           // of the character at the cursor
  size_t offset() const { return at_; }
  // Throws Failure (stage parse, code "syntax").
  [[noreturn]] void wrong(const std::string& expected) const;

 private:
  const std::string& text() const { return source_->text; }
  void skip();
  SourcePtr source_;
  size_t at_ = 0;
};

}  // namespace tile
