// A small printer: texts in which named pieces stand where they go.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tile::cuda {

// In a text, `$name` or `${name}` stands for the piece of that name (lower-case letters and
// underscores; the braces are for names that such a character follows). Pieces are put in as they
// are: a `$` in one means nothing.
class TextPieces {
 public:
  // Both replace a piece of the same name.
  void set(const std::string& name, std::string text);
  void set(const std::string& name, int64_t number);
  // The text with its pieces. An InternalError where it names a piece that there is not.
  std::string fill(std::string_view text) const;

 private:
  std::map<std::string, std::string, std::less<>> pieces_;
};

}  // namespace tile::cuda
