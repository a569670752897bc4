#include <algorithm>
#include <map>
#include <set>

#include "core/ir/bound.h"
#include "core/ir/ranks/rank_program.h"
#include "core/ir/text.h"

namespace tile {
namespace {

bool fits(const Affine& form, const Piece& piece) {
  size_t n = form.coefficients.size();
  while (n > piece.iterators.size() && form.coefficients[n - 1].is_zero()) --n;
  return n <= piece.iterators.size();
}

class Verifier {
 public:
  // `rank`: whose program it is, or null.
  Verifier(const BoundProgram& program, const RankProgram* rank)
      : program_(program), rank_(rank), defined_(program.tensors.size()) {}

  void run() {
    std::set<std::string> names;
    for (const BoundTensor& tensor : program_.tensors) {
      internal_check(!tensor.name.empty() && names.insert(tensor.name).second,
                     "bound: a tensor's name is empty or used twice");
      verify_tensor(tensor);
    }
    for (TensorId id : defined_.ids()) {
      if (program_.tensors[id].constant) defined_[id] = true;
    }
    for (TensorId id : program_.inputs) {
      internal_check(at(id).role == TensorRole::input, "bound: an input of another role");
      defined_[id] = true;
    }
    verify_statements();
    for (TensorId id : program_.outputs) {
      internal_check(at(id).role != TensorRole::temporary, "bound: an output of another role");
      read(id);
    }
  }

 private:
  const BoundTensor& at(TensorId id) const {
    internal_check(program_.tensors.contains(id), "bound: no such tensor");
    return program_.tensors[id];
  }

  void verify_statements() {
    if (rank_ == nullptr) {
      for (const BoundStatement& statement : program_.statements) verify_any(statement);
      return;
    }
    for (const PartOfTensor& part : rank_->parts) verify_part(part);
    for (const auto& [whole, boxes] : missing_) {
      internal_check(boxes.cells == element_count(at(whole).shape),
                     "bound: the parts of a tensor are not all of it");
    }
    for (RankStep step : steps_of(*rank_)) {
      if (step.kind == RankStep::Kind::statement) {
        verify_any(program_.statements[step.number]);
      } else if (step.kind == RankStep::Kind::begin) {
        verify_beginning(rank_->exchanges[step.number].what);
      } else {
        write(rank_->exchanges[step.number].what.result);
      }
    }
    for (const auto& [whole, boxes] : missing_) {
      internal_check(boxes.left == 0, "bound: a part of a tensor is not set");
    }
  }
  void verify_any(const BoundStatement& statement) {
    std::visit([this](const auto& s) { verify_statement(s); }, statement);
  }

  void verify_part(const PartOfTensor& part) {
    const BoundTensor &one = at(part.part), &whole = at(part.whole);
    auto is_plain = [](const BoundTensor& t) {
      return t.role != TensorRole::input && !t.view_of && !t.constant;
    };
    internal_check(is_plain(one) && is_plain(whole) && one.role == TensorRole::temporary,
                   "bound: a part of, or as, an input, a view or a constant");
    internal_check(one.type == whole.type && one.shape.size() == part.at.size() &&
                       one.shape.size() == whole.shape.size(),
                   "bound: a part of another type or rank");
    Box box = box_of(program_, part);
    internal_check(!box.empty() && contains(whole_box(whole.shape), box),
                   "bound: a part outside of its tensor");
    internal_check(whole_of_.emplace(part.part, part.whole).second, "bound: a part of two tensors");
    Parts& parts = missing_[part.whole];
    for (const Box& other : parts.boxes) {
      internal_check(!overlap(box, other), "bound: parts that share cells");
    }
    parts.cells += box.count();
    parts.boxes.push_back(std::move(box));
    ++parts.left;
  }

  void verify_tensor(const BoundTensor& tensor) const {
    internal_check(tensor.type != DType::none, "bound: a tensor without a type");
    bool sized = std::all_of(tensor.shape.begin(), tensor.shape.end(),
                             [](int64_t size) { return size >= 0; });
    internal_check(sized, "bound: a negative size");
    if (tensor.constant) verify_constant(tensor);
    size_t rank = tensor.shape.size();
    internal_check(
        !tensor.tf32_parts || (tensor.type == DType::f32 && rank >= 2 &&
                               tensor.shape[rank - 2] == 2 && tensor.role == TensorRole::temporary),
        "bound: parts of tf32 in a tensor of another form");
    internal_check(!tensor.fixed || tensor.role == TensorRole::input,
                   "bound: fixed elements of no input");
    if (!tensor.view_of) return;
    const BoundTensor& source = at(*tensor.view_of);
    internal_check(!source.view_of, "bound: a view of a view");
    internal_check(tensor.role == TensorRole::temporary,
                   "bound: a view that is an input or output");
    internal_check(
        source.type == tensor.type && element_count(source.shape) == element_count(tensor.shape),
        "bound: a view of another type or size");
  }

  static void verify_constant(const BoundTensor& tensor) {
    auto bytes = static_cast<size_t>(element_count(tensor.shape)) * byte_size(tensor.type);
    internal_check(tensor.constant->size() == bytes, "bound: a constant of another size");
    internal_check(tensor.role == TensorRole::temporary && !tensor.view_of,
                   "bound: a constant that is an input, an output or a view");
  }

  void read(TensorId id) const {
    TensorId parallel_dim = at(id).view_of.value_or(id);
    internal_check(defined_[parallel_dim], "bound: a tensor is used before it is set");
  }
  void write(TensorId id) {
    internal_check(at(id).role != TensorRole::input && !at(id).view_of && !at(id).constant,
                   "bound: an input, a view or a constant is assigned");
    internal_check(!defined_[id], "bound: a tensor is assigned twice");
    internal_check(!missing_.contains(id) || missing_[id].left == 0,
                   "bound: a tensor is assigned that has parts");
    defined_[id] = true;
    auto part = whole_of_.find(id);
    if (part != whole_of_.end() && --missing_[part->second].left == 0) write(part->second);
  }

  void verify_statement(const Contraction& c) {
    internal_check(!c.outputs.empty(), "bound: a contraction without an output");
    for (const Piece& piece : c.pieces) verify_piece(c, piece);
    if (c.fill) {
      read(*c.fill);
      bool one = std::all_of(c.outputs.begin(), c.outputs.end(),
                             [&](TensorId id) { return id == c.outputs[0]; });
      internal_check(one && at(*c.fill).shape == at(c.outputs[0]).shape &&
                         at(*c.fill).type == at(c.outputs[0]).type,
                     "bound: a default of another shape or type");
    }
    std::set<TensorId> outputs(c.outputs.begin(), c.outputs.end());
    for (TensorId id : outputs) write(id);
  }

  void verify_statement(const Sort& s) {
    read(s.source);
    auto rank = static_cast<int64_t>(at(s.source).shape.size());
    internal_check(s.axis >= 0 && s.axis < rank && at(s.source).shape == at(s.result).shape,
                   "bound: a sort's axis or shape");
    write(s.result);
  }

  void verify_statement(const Scatter& s) {
    read(s.updates);
    read(s.indices);
    internal_check(is_integer(at(s.indices).type), "bound: scatter indices are no integers");
    size_t outer = at(s.indices).shape.size();
    internal_check(at(s.updates).shape.size() + 1 == at(s.result).shape.size() + outer,
                   "bound: a scatter's ranks");
    write(s.result);
  }

  void verify_statement(const BoundRepeat& r) {
    internal_check(r.step != nullptr && r.trips >= 1, "bound: a repeat of nothing");
    const BoundProgram& step = *r.step;
    internal_check(
        step.inputs.size() == r.operands.size() && !r.operands.empty() && step.outputs.size() == 1,
        "bound: a repeat with other operands than its step");
    verify(step);
    auto same = [](const BoundTensor& a, const BoundTensor& b) {
      return a.type == b.type && a.shape == b.shape;
    };
    for (size_t i = 0; i < r.operands.size(); ++i) {
      read(r.operands[i]);
      internal_check(same(at(r.operands[i]), step.tensors[step.inputs[i]]),
                     "bound: an operand of a repeat of another shape or type");
    }
    internal_check(same(at(r.operands[0]), step.tensors[step.outputs[0]]) &&
                       same(at(r.operands[0]), at(r.result)),
                   "bound: a repeat's state changes its shape or type");
    write(r.result);
  }

  // Its result is set when it ends.
  void verify_beginning(const Exchange& e) {
    read(e.source);
    internal_check(at(e.source).type == at(e.result).type, "bound: an exchange of another type");
    internal_check(e.reduction != Aggregation::assign, "bound: an exchange that assigns twice");
    for (const Exchange::Part& part : e.sends) verify_part(part, at(e.source).shape);
    for (const Exchange::Part& part : e.receives) verify_part(part, at(e.result).shape);
    for (size_t i = 0; i < e.receives.size() && !e.reduction; ++i) {
      for (size_t j = 0; j < i; ++j) {
        internal_check(!overlap(e.receives[i].box, e.receives[j].box),
                       "bound: an exchange sets a cell twice");
      }
    }
    internal_check(!e.sparse || !e.reduction, "bound: sparse sums");
  }

  static void verify_part(const Exchange::Part& part, const Shape& shape) {
    internal_check(part.rank >= 0, "bound: an exchange with no rank");
    internal_check(part.box.dims() == shape.size() && part.box.hi.size() == shape.size(),
                   "bound: the rank of an exchange's box");
    internal_check(!part.box.empty() && contains(whole_box(shape), part.box),
                   "bound: an exchange's box outside of its tensor");
  }

  void verify_piece(const Contraction& c, const Piece& piece) const {
    std::set<std::string> names(piece.iterators.begin(), piece.iterators.end());
    internal_check(names.size() == piece.iterators.size(),
                   "bound: an iterator's name is used twice");
    internal_check(piece.box.empty() || piece.box.size() == piece.iterators.size(),
                   "bound: a box of another size than the iterators");
    internal_check(piece.parallel_dims <= piece.iterators.size(),
                   "bound: more parallel dimensions than iterators");
    for (const Constraint& constraint : piece.constraints) {
      internal_check(fits(constraint.form, piece), "bound: a constraint's iterator");
    }
    internal_check(piece.stores.size() == c.outputs.size(), "bound: stores and outputs differ");
    for (size_t o = 0; o < piece.stores.size(); ++o) {
      internal_check(piece.stores[o].tensor == c.outputs[o], "bound: stores and outputs differ");
      verify_access(piece.stores[o], piece);
      for (const Index& index : piece.stores[o].index) {
        internal_check(index.value < 0 && index.boundary == Boundary::in_range,
                       "bound: a store that is not affine and in range");
      }
    }
    for (const Access& load : piece.loads) {
      read(load.tensor);
      verify_access(load, piece);
    }
    verify_piece_body(c, piece);
  }

  void verify_access(const Access& access, const Piece& piece) const {
    internal_check(access.index.size() == at(access.tensor).shape.size(),
                   "bound: an access's rank");
    for (const Index& index : access.index) {
      if (index.value >= 0) continue;  // checked at the loads that give it
      internal_check(fits(index.affine, piece), "bound: an index's iterator");
      internal_check(index.boundary == Boundary::in_range || index.affine.is_integral(),
                     "bound: a fractional index under a boundary rule");
    }
  }

  void verify_piece_body(const Contraction& c, const Piece& piece) const {
    verify_body(piece.body, piece.loads.size(), piece.iterators.size(), true);
    internal_check(piece.body.results.size() == c.outputs.size(), "bound: results and outputs");
    visit_nodes(piece.body, [&](const Node& node) {
      internal_check(node.kind != NodeKind::size, "bound: a symbolic size");
      if (node.kind != NodeKind::load) return;
      const Access& access = piece.loads[node.slot];
      internal_check(node.type == at(access.tensor).type, "bound: a load of another type");
      for (const Index& index : access.index) {
        internal_check(index.value < static_cast<int>(node.args.size()),
                       "bound: an index value is no operand of its load");
      }
    });
    for (NodeId result : piece.body.results) {
      internal_check(piece.body[result].type == c.accumulator,
                     "bound: a result of another type than the accumulator");
    }
  }

  // Of one tensor that has parts.
  struct Parts {
    std::vector<Box> boxes;
    int64_t cells = 0;
    size_t left = 0;  // parts that are not set yet
  };

  const BoundProgram& program_;
  const RankProgram* rank_;
  IdVector<TensorId, bool> defined_;
  std::map<TensorId, Parts> missing_;      // by the whole
  std::map<TensorId, TensorId> whole_of_;  // by the part
};

}  // namespace

void verify(const BoundProgram& program) { Verifier(program, nullptr).run(); }

void verify(const RankProgram& program) { Verifier(program.program, &program).run(); }

}  // namespace tile
