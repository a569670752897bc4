#include "backends/cpu/emit/line_emitter.h"

#include <llvm/BinaryFormat/Dwarf.h>

namespace tile::cpu {

std::unique_ptr<ModuleLines> ModuleLines::of(llvm::Module& module, const nest::Nest& nest) {
  return nest.source ? std::make_unique<ModuleLines>(module, nest) : nullptr;
}

// The form that runtime/engine/inspect/gdb reads (backends/cpu/launch/debug_sections.h).
ModuleLines::ModuleLines(llvm::Module& module, const nest::Nest& nest)
    : builder_(module), file_(builder_.createFile(nest.source->name, ".")), lines_(*nest.source) {
  constexpr unsigned kDwarfVersion = 4;
  module.addModuleFlag(llvm::Module::Max, "Dwarf Version", kDwarfVersion);
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  builder_.createCompileUnit(llvm::dwarf::DW_LANG_C, file_, "", true, "", 0, "",
                             llvm::DICompileUnit::LineTablesOnly);
}

llvm::DISubprogram* ModuleLines::add(llvm::Function& function, unsigned line) {
  auto* type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
  llvm::DISubprogram* made = builder_.createFunction(
      file_, function.getName(), "", file_, line, type, line, llvm::DINode::FlagZero,
      llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
  function.setSubprogram(made);
  return made;
}

void LineEmitter::begin(llvm::Function& function, const nest::Statement& first) {
  if (module_ == nullptr) return;
  unsigned line = module_->first_line(first);
  scope_ = module_->add(function, line);
  part_of_ = {{line, 0}};
  move_to(line);
}

void LineEmitter::at(Span span) {
  unsigned line = module_ == nullptr ? 0 : module_->line_of(span);
  if (line > 0 && line != line_) move_to(line);
}

void LineEmitter::move_to(unsigned line) {
  if (module_ == nullptr) return;
  auto [part, is_new] = part_of_.try_emplace(line, parts_ + 1);
  if (is_new) ++parts_;
  line_ = line;
  ir_.SetCurrentDebugLocation(llvm::DILocation::get(ir_.getContext(), line, part->second, scope_));
}

}  // namespace tile::cpu
