// Where instructions come from in the program's text: LLVM's debug locations, for a nest that knows
// its text. Of any other nest there are none, and nothing here costs anything.
//
// A location's column is no column: it numbers a part of the function. A debugger stops for a line
// once in each part, so that a statement has a part of its own in every version of the code that
// computes it (interior and border, whole tiles and remainders), and one alone for all iterations
// of its loops. Part 0 has the line of the function itself.
#pragma once

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <memory>

#include "core/nest/source_lines.h"

namespace tile::cpu {

// What the functions of one module share.
class ModuleLines {
 public:
  // Null for a nest whose code has no lines.
  static std::unique_ptr<ModuleLines> of(llvm::Module& module, const nest::Nest& nest);
  ModuleLines(llvm::Module& module, const nest::Nest& nest);
  // To be called once all functions have their code.
  void finish() { builder_.finalize(); }

  unsigned line_of(Span span) const { return lines_.line_of(span); }
  unsigned first_line(const nest::Statement& statement) const {
    return lines_.first_line({statement});
  }
  llvm::DISubprogram* add(llvm::Function& function, unsigned line);

 private:
  llvm::DIBuilder builder_;
  llvm::DIFile* file_;
  nest::SourceLines lines_;
};

class LineEmitter {
 public:
  LineEmitter(llvm::IRBuilderBase& ir, ModuleLines* module) : ir_(ir), module_(module) {}

  void begin(llvm::Function& function, const nest::Statement& first);
  // What is emitted from here on is for the span; for an empty one nothing changes.
  void at(Span span);
  // Does so within emit() alone.
  template <class Emit>
  void within(Span span, const Emit& emit) {
    unsigned outer = line_;
    at(span);
    emit();
    move_to(outer);
  }
  // emit() for code that runs or does not, or again and again, beside what is around it.
  template <class Emit>
  void inside(const Emit& emit) {
    unsigned outer = line_;
    std::map<unsigned, unsigned> known = part_of_;
    emit();
    part_of_ = std::move(known);
    move_to(outer);
  }

 private:
  void move_to(unsigned line);

  llvm::IRBuilderBase& ir_;
  ModuleLines* module_;
  llvm::DISubprogram* scope_ = nullptr;
  unsigned line_ = 0, parts_ = 0;
  std::map<unsigned, unsigned> part_of_;  // lines that what is emitted now follows
};

}  // namespace tile::cpu
