// Folds: a loop with a phi for each carried value, inside the lanes of a vector loop. Where the
// number of rounds is the same for every lane it is a plain loop; otherwise it runs as long as any
// lane does, lanes dropping out.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/cpu/emit/body_emitter.h"

namespace tile::cpu {

class FoldEmitter {
 public:
  FoldEmitter(EmitContext& context, BodyEmitter& bodies, QuestionEmitter& questions)
      : c_(context), bodies_(bodies), questions_(questions) {}

  // The results. The same loop with the same operands is run once, however many statements need a
  // result of it.
  Nodes fold(const BodyValues& values, const Node& node);

 private:
  struct FoldLoop {
    Form begin;
    llvm::Value* rounds = nullptr;
    llvm::Value* counts = nullptr;  // each lane's rounds, where they differ
    bool certain = false;           // there is at least one round
  };
  struct Rounds {  // a loop that carries values
    llvm::BasicBlock *block = nullptr, *latch = nullptr;
    llvm::PHINode *number = nullptr, *end = nullptr;  // `end`: of a run
    std::vector<llvm::PHINode*> carried;
  };
  Form bound_form(const BodyValues& values, NodeId id);
  Form nominal_counter(const std::string& name);
  void describe(const Body& region, const std::vector<nest::Access>& loads, Key& key,
                std::set<nest::BufferId>& buffers);
  Nodes new_fold(const BodyValues& values, const Node& node);
  Rounds begin_rounds();
  void enter(Rounds& r, llvm::BasicBlock* before, llvm::Value* number, const Nodes& carried);
  void again(Rounds& r, llvm::Value* number, const Nodes& carried);
  Nodes fold_loop(const BodyValues& values, const Node& node, Nodes starts, const FoldLoop& loop);
  Nodes fold_round(const BodyValues& values, const Node& node, llvm::Value* round,
                   const Nodes& arguments, const FoldLoop& loop);
  IdVector<NodeId, bool> varying_nodes(const Body& region, const std::vector<nest::Access>& loads,
                                       const std::vector<bool>& arguments);
  std::vector<bool> varying_carried(const Node& fold, const std::vector<nest::Access>& loads,
                                    std::vector<bool> given, bool differ);

  EmitContext& c_;
  BodyEmitter& bodies_;
  QuestionEmitter& questions_;
  std::map<std::string, Form> counters_;  // nominal ones
};

}  // namespace tile::cpu
