// What everything that emits code of one function knows: where instructions go, what names and
// values mean there, and the lanes that are at work.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/cpu/emit/line_emitter.h"
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/values/convert.h"
#include "backends/cpu/values/dot_products.h"
#include "backends/cpu/values/indices.h"
#include "backends/cpu/values/scopes.h"
#include "core/nest/nest.h"

namespace tile::cpu {

using Nodes = std::vector<llvm::Value*>;
using NodeValues = IdVector<NodeId, llvm::Value*>;

struct EmitContext {
  EmitContext(llvm::Function& of, const nest::Nest& of_nest, const Plan& plan,
              HalfConversion conversion, const DotInstructions& instructions,
              ModuleLines* module_lines);

  llvm::Function& function;
  const nest::Nest& nest;
  const HalfConversion half;
  const DotInstructions dots;
  llvm::IRBuilder<> ir;
  LineEmitter lines;
  Scopes scopes;
  Indices indices;
  Memory memory;
  Lanes lanes;
  // Values of the function's scope: run-time parameters and what is computed from them alone.
  std::set<llvm::Value*> settled;
  std::vector<llvm::AllocaInst*> cells;  // that become registers at the end, beside the memory's
  struct CountedLoop {
    std::string variable;
    Form at;
  };
  std::vector<CountedLoop> loops;          // counted ones around the present statement
  std::map<nest::BufferId, size_t> begun;  // buffers' lives: within how many of these

  const nest::Buffer& buffer(nest::BufferId id) const { return nest.buffers[id]; }
  DType type_of(nest::BufferId id) const { return buffer(id).type; }

  // Whether the value is known in the whole function.
  bool is_settled(llvm::Value* value) const;
  // The value on every lane.
  llvm::Value* splat(llvm::Value* value);
  // The lanes of which the mask is true; `emit`, with such lanes at work.
  Lanes masked(llvm::Value* mask);
  void within(const Lanes& some, const std::function<void()>& emit);
  void conditional(llvm::Value* condition, const std::function<void()>& then,
                   const std::function<void()>& otherwise = {});
  // Whether the loops around say which element the access names: computed indices and the counters
  // of folds, which the statement's own body binds, do not.
  bool is_place_known(const nest::Access& a) const;
  // The element of its buffer that the access names, and how many elements that moves by when the
  // variable, which is bound to `at`, grows by one; 0 where that is not a number.
  Form offset_of(const nest::Access& a);
  int64_t move_of(const nest::Access& a, const std::string& variable, const Form& at);
};

}  // namespace tile::cpu
