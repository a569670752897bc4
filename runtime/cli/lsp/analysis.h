// What a program's text means, for an editor: all of it within bounded time, whatever the text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/language/language.h"

namespace tile::lsp {

struct Analysis {
  std::vector<Diagnostic> diagnostics;     // errors and warnings, with spans in the text
  std::shared_ptr<const Program> program;  // null where the text is none
};
// Parses and warns. A text that takes longer than kSeconds of the processor gets one diagnostic
// that says so (code "limit"). Never throws but std::bad_alloc.
constexpr double kSeconds = 1;
Analysis analyse(Language language, const std::string& name, const std::string& text);

// One line about a tensor of the program: kind, name, symbolic shape and type where they are known.
// Empty for a name that is none.
std::string describe_tensor(const Program& program, const std::string& name);

// The program of gradients of the first output with respect to all inputs, as Tile text; nullopt
// where it cannot be had: `why` says for people why not.
std::optional<std::string> gradient_text(const Program& program, std::string& why);

}  // namespace tile::lsp
