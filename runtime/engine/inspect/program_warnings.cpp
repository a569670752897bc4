#include "runtime/engine/inspect/program_warnings.h"

#include "core/passes/bind/bind.h"
#include "core/warnings/warnings.h"

namespace tile {

std::vector<Diagnostic> warnings_of(const Executable& executable) {
  require_program(executable);
  const Program& program = *executable.source;
  if (!executable.restored) return warnings_of(program, executable.bound);
  std::vector<InputType> types;
  for (const InputLayout& layout : executable.inputs) types.push_back(layout.type);
  return warnings_of(program, tile::bind(program, types));
}

std::string warnings_json(const std::vector<Diagnostic>& warnings, const Source& source) {
  std::string list = "[";
  for (const Diagnostic& d : warnings) {
    list += (list.size() > 1 ? "," : "") + render_json(d, source);
  }
  return list + "]";
}

}  // namespace tile
