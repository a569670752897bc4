// Statements that give each cell of one tensor to the same cell of another: what reads the copy
// reads the tensor. A result that is a copy of a temporary is made where the temporary was.
#include <algorithm>
#include <set>

#include "core/ir/analysis/uses.h"
#include "core/passes/optimize/optimize.h"
#include "core/passes/optimize/pointwise_producer.h"
#include "core/passes/optimize/rename_reads.h"

namespace tile {
namespace {

class Forwarding {
 public:
  explicit Forwarding(BoundProgram& program) : program_(program) {
    for (TensorId id : program.outputs) outputs_.insert(id);
    for (const BoundTensor& t : program.tensors) {
      if (t.view_of) viewed_.insert(*t.view_of);
    }
  }

  void run() {
    std::vector<BoundStatement> kept;
    for (BoundStatement& statement : program_.statements) {
      rename_reads(statement, to_);
      const Contraction* c = std::get_if<Contraction>(&statement);
      std::optional<TensorId> source = c == nullptr ? std::nullopt : copied(*c);
      if (source && (stands_in(*source, c->outputs[0]) || makes(kept, *source, c->outputs[0]))) {
        continue;
      }
      kept.push_back(std::move(statement));
    }
    program_.statements = std::move(kept);
    rename_views(program_, to_);
  }

 private:
  const BoundTensor& tensor(TensorId id) const { return program_.tensors[id]; }

  // What the statement is a copy of.
  std::optional<TensorId> copied(const Contraction& c) const {
    std::optional<std::vector<IteratorId>> map = pointwise_map(program_, c);
    if (!map || c.outputs.size() != 1) return std::nullopt;
    const Piece& piece = c.pieces[0];
    const Node& value = piece.body[before_widening(piece.body, piece.body.results[0])];
    if (value.kind != NodeKind::load || !value.args.empty()) return std::nullopt;
    const Access& load = piece.loads[value.slot];
    const BoundTensor &from = tensor(load.tensor), &result = tensor(c.outputs[0]);
    if (!inlinable_access(load) || from.type != result.type || from.shape != result.shape) {
      return std::nullopt;
    }
    for (size_t d = 0; d < load.index.size(); ++d) {
      IteratorId u = (*map)[d];
      Affine same = u.valid() ? iterator_affine(u) : constant_affine(0);
      if (!(load.index[d].affine == same)) return std::nullopt;
    }
    return load.tensor;
  }

  bool stands_in(TensorId source, TensorId copy) {
    if (tensor(copy).role != TensorRole::temporary || outputs_.contains(copy)) return false;
    to_[copy] = source;
    return true;
  }

  // The result is an output: the statement that makes the temporary makes it.
  bool makes(std::vector<BoundStatement>& before, TensorId source, TensorId result) {
    const BoundTensor& t = tensor(source);
    bool own = t.role == TensorRole::temporary && !outputs_.contains(source) && !t.view_of &&
               !t.constant && !viewed_.contains(source) && !viewed_.contains(result);
    auto maker = std::find_if(before.begin(), before.end(), [&](const BoundStatement& s) {
      return contains(written_by(s), source);
    });
    if (!own || maker == before.end()) return false;
    auto* c = std::get_if<Contraction>(&*maker);
    if (c == nullptr || c->outputs.size() != 1) return false;
    c->outputs[0] = result;
    for (Piece& piece : c->pieces) {
      for (Access& store : piece.stores) store.tensor = result;
    }
    to_[source] = result;
    for (BoundStatement& s : before) rename_reads(s, {{source, result}});
    for (auto& [copy, other] : to_) other = other == source ? result : other;
    return true;
  }

  BoundProgram& program_;
  std::set<TensorId> outputs_, viewed_;
  Renaming to_;
};

}  // namespace

void forward_copies(BoundProgram& program, const Target&) { Forwarding(program).run(); }

}  // namespace tile
