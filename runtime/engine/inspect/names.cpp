#include "runtime/engine/inspect/names.h"

#include <algorithm>

#include "backends/trace.h"
#include "runtime/engine/inspect/gdb.h"
#include "runtime/engine/inspect/perf.h"

namespace tile {
namespace {

// The code's functions, numbered where there are several; a GPU's code has none here.
void tell(const std::shared_ptr<const Code>& code, const std::string& name, const SourceLine& line,
          const std::vector<int>& others) {
  std::vector<cpu::CodeSymbol> symbols = cpu::code_symbols(*code);
  std::string frames = gdb::is_on() ? cpu::code_frames(*code) : "";
  for (size_t i = 0; i < symbols.size(); ++i) {
    std::string own = symbols.size() == 1 ? name : name + " (" + std::to_string(i + 1) + ")";
    if (perf::is_on()) perf::tell(symbols[i], own, line);
    if (gdb::is_on()) gdb::tell({own, line, symbols[i], others, frames}, code);
  }
}

// Of the kernel's statements, each once, but for its own.
std::vector<int> other_lines(const Executable& e, const Launch& launch, int own) {
  std::vector<int> lines;
  if (!launch.kernel || !e.source->source) return lines;
  for (const KernelStage& stage : launch.kernel->stages) {
    int line = position_of(*e.source->source, stage.contraction.span.begin).line;
    bool known = line == own || std::find(lines.begin(), lines.end(), line) != lines.end();
    if (!known) lines.push_back(line);
  }
  return lines;
}

}  // namespace

SourceLine line_of(const Executable& e, const Launch& launch) {
  if (!e.source->source) return {"<program>", 1};
  const Source& source = *e.source->source;
  return {source.name, position_of(source, launch.where.begin).line};
}

bool names_are_wanted() { return trace::is_on() || perf::is_on() || gdb::is_on(); }

std::string name_of(const Launch& launch) {
  if (launch.kernel) return launch.kernel->name;
  return launch.sort ? "sort" : launch.loop ? "loop" : "scatter";
}

std::string name_of(const Executable& e, const Launch& launch) {
  SourceLine line = line_of(e, launch);
  return line.file + ":" + std::to_string(line.number) + " " + name_of(launch);
}

void tell_names(const Executable& e, const Launch& launch, const std::shared_ptr<const Code>& code,
                const std::string& how) {
  if (!perf::is_on() && !gdb::is_on()) return;
  SourceLine line = line_of(e, launch);
  tell(code, name_of(e, launch) + how, line, other_lines(e, launch, line.number));
}

void tell_names(const Executable& e) {
  if (!perf::is_on() && !gdb::is_on()) return;
  for (const Launch& launch : e.launches) {
    if (launch.code) tell_names(e, launch, launch.code, "");
    for (const PrepackedCopy& p : launch.prepared) {
      if (p.code) tell(p.code, name_of(e, launch) + " packing", line_of(e, launch), {});
    }
  }
}

}  // namespace tile
