#include "runtime/cli/lsp/document.h"

#include <algorithm>

#include "core/language/program_text.h"

namespace tile::lsp {
namespace {

// A byte that is no character of UTF-8 counts as one character.
size_t bytes_at(std::string_view text) { return std::max<size_t>(1, character_length(text)); }
// In units of the encoding; characters of four bytes take two units of UTF-16.
int64_t units_of(size_t bytes, Encoding encoding) {
  if (encoding == Encoding::utf8) return static_cast<int64_t>(bytes);
  return bytes == 4 ? 2 : 1;
}

}  // namespace

void Document::set(std::string text) {
  text_ = std::move(text);
  lines_ = {0};
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') lines_.push_back(i + 1);
  }
}

void Document::replace(const Range& range, std::string_view by, Encoding encoding) {
  size_t begin = offset_of(range.begin, encoding);
  size_t end = std::max(begin, offset_of(range.end, encoding));
  std::string text = std::move(text_);
  text.replace(begin, end - begin, by);
  set(std::move(text));
}

size_t Document::offset_of(Position position, Encoding encoding) const {
  if (position.line < 0) return 0;
  auto line = static_cast<size_t>(position.line);
  if (line >= lines_.size()) return text_.size();
  size_t at = lines_[line];
  size_t end = line + 1 < lines_.size() ? lines_[line + 1] - 1 : text_.size();
  for (int64_t units = 0; at < end && units < position.character;) {
    size_t bytes = std::min(bytes_at(std::string_view(text_).substr(at)), end - at);
    units += units_of(bytes, encoding);
    at += bytes;
  }
  return at;
}

Position Document::position_of(size_t offset, Encoding encoding) const {
  offset = std::min(offset, text_.size());
  auto after = std::upper_bound(lines_.begin(), lines_.end(), offset);
  Position position{std::distance(lines_.begin(), after) - 1, 0};
  for (size_t at = *std::prev(after); at < offset;) {
    size_t bytes = bytes_at(std::string_view(text_).substr(at));
    position.character += units_of(bytes, encoding);
    at += bytes;
  }
  return position;
}

}  // namespace tile::lsp
