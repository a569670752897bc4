// Words of a text that need not be a program: what an editor shows while somebody types.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/language/language.h"

namespace tile::lsp {

struct Word {
  size_t begin = 0, end = 0;
  bool name = false;  // else one character of punctuation, or a number or string
};
inline std::string_view text_of(std::string_view text, const Word& word) {
  return text.substr(word.begin, word.end - word.begin);
}
// Names and signs in order, without comments; never fails.
std::vector<Word> words_of(Language language, std::string_view text);
// The name that contains the offset, or ends there.
std::optional<Word> name_at(const std::vector<Word>& words, size_t offset);

enum class NameKind : uint8_t { tensor, dimension, function, value, parameter };
// A place where a name gets its meaning.
struct Declaration {
  Word word;
  NameKind kind = NameKind::value;
};
// All of a text, by what stands around names: in Tile inputs, dimensions, assigned tensors and let;
// in MFG let, def, fn, parameters and the names between bars; in Lift val and the names before =>.
std::vector<Declaration> declarations(Language language, std::string_view text,
                                      const std::vector<Word>& words);
// The one that a name at `word` means: the nearest before it, else the first.
std::optional<Declaration> declaration_of(std::string_view text,
                                          const std::vector<Declaration>& all, const Word& word);

// What programs of the language may call, and its reserved words.
std::vector<std::string> function_names(Language language);
std::vector<std::string> keywords(Language language);
// One line about a function; empty for another name.
std::string describe_function(Language language, std::string_view name);

}  // namespace tile::lsp
