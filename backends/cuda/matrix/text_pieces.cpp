#include "backends/cuda/matrix/text_pieces.h"

#include <algorithm>
#include <utility>

#include "core/support/diagnostic.h"

namespace tile::cuda {

void TextPieces::set(const std::string& name, std::string text) {
  pieces_.insert_or_assign(name, std::move(text));
}

void TextPieces::set(const std::string& name, int64_t number) { set(name, std::to_string(number)); }

std::string TextPieces::fill(std::string_view text) const {
  constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyz_";
  std::string filled;
  while (true) {
    size_t place = text.find('$');
    filled += text.substr(0, place);
    if (place == std::string_view::npos) return filled;
    text.remove_prefix(place + 1);
    bool braces = !text.empty() && text.front() == '{';
    if (braces) text.remove_prefix(1);
    size_t length = std::min(text.find_first_not_of(kNameCharacters), text.size());
    auto piece = pieces_.find(text.substr(0, length));
    internal_check(piece != pieces_.end(), "cuda: a text names a piece that there is not");
    filled += piece->second;
    text.remove_prefix(length + (braces ? 1 : 0));
  }
}

}  // namespace tile::cuda
