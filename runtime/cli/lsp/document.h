// An open text of an editor: positions as the Language Server Protocol counts them, and edits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tile::lsp {

// How characters within a line are counted: the protocol's default is UTF-16.
enum class Encoding : uint8_t { utf8, utf16 };

// Counted from 0.
struct Position {
  int64_t line = 0;
  int64_t character = 0;
};
struct Range {
  Position begin, end;
};

class Document {
 public:
  explicit Document(std::string text) { set(std::move(text)); }

  const std::string& text() const { return text_; }
  void set(std::string text);
  // Replaces a part. Positions outside of the text are taken as its nearest ends, and an end before
  // its begin as no part.
  void replace(const Range& range, std::string_view by, Encoding encoding);

  // A byte's offset, at most the text's size; positions outside are taken as the nearest inside.
  size_t offset_of(Position position, Encoding encoding) const;
  Position position_of(size_t offset, Encoding encoding) const;

 private:
  std::string text_;
  std::vector<size_t> lines_;  // where each begins
};

}  // namespace tile::lsp
