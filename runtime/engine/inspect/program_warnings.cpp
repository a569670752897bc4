#include "runtime/engine/inspect/program_warnings.h"

#include "core/passes/bind/bind.h"
#include "core/warnings/warnings.h"
#include "runtime/engine/parameter_ranges.h"

namespace tile {

namespace {

std::vector<Diagnostic> warnings_of_text(const Executable& executable) {
  const Program& program = *executable.source;
  if (!executable.restored) return warnings_of(program, executable.bound);
  std::vector<InputType> types;
  for (const InputLayout& layout : executable.inputs) types.push_back(layout.type);
  return warnings_of(program, tile::bind(program, types));
}

}  // namespace

std::vector<Diagnostic> warnings_of(const Executable& executable) {
  require_program(executable);
  std::vector<Diagnostic> list = warnings_of_text(executable);
  if (executable.ranges) {
    std::vector<Diagnostic> values = executable.ranges->warnings();
    list.insert(list.end(), values.begin(), values.end());
  }
  return list;
}

std::string warnings_json(const std::vector<Diagnostic>& warnings, const Source& source) {
  std::string list = "[";
  for (const Diagnostic& d : warnings) {
    list += (list.size() > 1 ? "," : "") + render_json(d, source);
  }
  return list + "]";
}

}  // namespace tile
