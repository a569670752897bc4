// All places of a text that mean the same as one name in it, and whether another name would do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/program.h"
#include "runtime/cli/lsp/words.h"

namespace tile::lsp {

struct Uses {
  std::string name;
  Word asked;               // the one that was asked for
  std::vector<Word> words;  // all of them, in order
  std::vector<Word> declared;
};
// Of the name at an offset. Tensors, dimensions, functions and parameters are the same in the whole
// text; values from where they are declared; an undeclared index of Tile within its statement.
// nullopt where there is no name, or one of the language's own.
std::optional<Uses> uses_at(Language language, std::string_view text, size_t offset);

// The text with the name in all its places.
std::string renamed(std::string_view text, const Uses& uses, const std::string& name);

// Why `name` cannot stand there; empty: it can, as far as words tell.
std::string fault_of_name(Language language, std::string_view text, const Uses& uses,
                          const std::string& name);
// Whether two programs are the same but for names.
bool same_but_for_names(const Program& a, const Program& b);

}  // namespace tile::lsp
