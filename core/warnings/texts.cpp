#include "core/warnings/texts.h"

#include <algorithm>

namespace tile::warnings {
namespace {

// The statements that MFG and Lift make are typed; each of those two texts has one syntax only.
template <class Parse>
auto syntax_of(const Program& program, Parse parse)
    -> std::optional<decltype(parse(std::string_view()))> {
  bool typed =
      std::any_of(program.statements.begin(), program.statements.end(), [](const Statement& s) {
        const auto* contraction = std::get_if<SymbolicContraction>(&s.what);
        return contraction != nullptr && contraction->typed;
      });
  if (!typed || !program.source) return std::nullopt;
  try {
    return parse(program.source->text);
  } catch (const Failure&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<mfg::ProgramSyntax> mfg_syntax(const Program& program) {
  return syntax_of(program, mfg::parse_syntax);
}

std::optional<lift::ProgramSyntax> lift_syntax(const Program& program) {
  return syntax_of(program, lift::parse_syntax);
}

}  // namespace tile::warnings
