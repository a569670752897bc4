// Puts the parts of a streamed kernel together: its stages, with their rows and streamed axis, and
// the statements that the program does not have (a finite maximum, sums before their factor).
#include <algorithm>
#include <limits>

#include "core/fusion/stream_parts.h"
#include "core/ir/analysis/accesses.h"
#include "core/kernel/rows.h"

namespace tile::stream {
namespace {

class StreamBuilder {
 public:
  StreamBuilder(const std::vector<std::optional<Step>>& steps, const BoundProgram& program,
                const Parts& parts)
      : steps_(steps), parts_(parts), e_(kernel(parts.exponential).stages[0].contraction) {
    result_.tensors = program.tensors;
  }

  // Nothing where a part has no such axis or row.
  std::optional<Kernel> build() {
    if (parts_.terms && !add_terms()) return std::nullopt;
    if (!add_maximum()) return std::nullopt;
    add_exponential();
    for (const Sum& sum : parts_.sums) {
      if (!add_sum(sum)) return std::nullopt;
    }
    if (widened_) read_widened();
    result_.name =
        result_.tensors[kernel(parts_.sums.back().step).stages[0].contraction.outputs[0]].name;
    return std::move(result_);
  }

 private:
  const Kernel& kernel(size_t step) const { return std::get<Kernel>(*steps_[step]); }
  const BoundTensor& tensor(TensorId id) const { return result_.tensors[id]; }

  // The stage's iterator for each row and for the axis, where `of` says which iterator of the stage
  // each of the exponential's is.
  bool place(KernelStage& stage, const IdVector<IteratorId, IteratorId>& of) const {
    for (IteratorId u : parts_.rows) stage.rows.push_back(of[u]);
    stage.stream = of[parts_.distance.axis];
    return stage.stream.valid() && std::all_of(stage.rows.begin(), stage.rows.end(),
                                               [](IteratorId u) { return u.valid(); });
  }
  TensorId add_tensor(const std::string& name, DType type, Shape shape) {
    BoundTensor t;
    t.name = name;
    t.type = type;
    t.shape = std::move(shape);
    return result_.tensors.add(std::move(t));
  }
  void add_attached(const Kernel& from, StageId to) {
    for (size_t s = 1; s < from.stages.size(); ++s) {
      result_.stages.push_back(from.stages[s]);
      result_.stages.back().attach = to;
    }
  }

  // A statement on every cell of a tensor.
  Contraction pointwise(TensorId output) const {
    Contraction c;
    c.outputs = {output};
    c.accumulator = compute_type(tensor(output).type);
    c.normalized = true;
    Piece piece;
    piece.box = IterationBox(tensor(output).shape);
    piece.parallel_dims = piece.box.size();
    Access store;
    store.tensor = output;
    for (size_t d = 0; d < piece.box.size(); ++d) {
      piece.iterators.push_back("i" + std::to_string(d));
      store.index.push_back({iterator_affine(d), -1, Boundary::in_range});
    }
    piece.stores = {store};
    c.pieces = {std::move(piece)};
    return c;
  }
  static Access at_cell(Access store, TensorId tensor) {
    store.tensor = tensor;
    return store;
  }

  bool add_terms() {
    const Kernel from = terms_of(steps_, parts_);
    const Piece& e = e_.pieces[0];
    std::map<TensorId, std::vector<IteratorId>> dims = result_dimensions(from);
    IdVector<IteratorId, IteratorId> of(e.box.size(), IteratorId());
    for (size_t load : parts_.distance.x_loads) {
      auto made = dims.find(e.loads[load].tensor);
      if (made == dims.end()) continue;
      for (size_t d = 0; d < made->second.size(); ++d) {
        IteratorId u = sole_iterator(e.loads[load].index[d], e);
        if (u.valid()) of[u] = made->second[d];
      }
    }
    KernelStage stage = from.stages[0];
    if (!place(stage, of)) return false;
    if (!stage.contraction.pieces[0].constraints.empty()) widen(stage.contraction, of);
    result_.stages.push_back(std::move(stage));
    add_attached(from, StageId(0));
    return true;
  }

  // Terms outside of the conditions are zero in the program, and nobody's: the maximum has the same
  // conditions, and what the sums read of the others is multiplied by no weight.
  void widen(Contraction& terms, const IdVector<IteratorId, IteratorId>& of) {
    Piece& piece = terms.pieces[0];
    const Piece& maximum = kernel(parts_.maximum).stages[0].contraction.pieces[0];
    IdVector<IteratorId, IteratorId> in_maximum(piece.box.size(), IteratorId());
    for (IteratorId u : of.ids()) {
      if (!of[u].valid()) continue;
      for (IteratorId v : parts_.distance.of.ids()) {
        if (parts_.distance.of[v] == u) in_maximum[of[u]] = v;
      }
    }
    if (terms.fill || terms.outputs.size() != 1 || !keeps_conditions(maximum, piece, in_maximum)) {
      return;
    }
    piece.constraints.clear();
    widened_ = terms.outputs[0];
    const BoundTensor made = tensor(*widened_);
    terms.outputs[0] = add_tensor(made.name + "_all", made.type, made.shape);
    piece.stores[0].tensor = terms.outputs[0];
  }
  void read_widened() {
    TensorId all = result_.stages[0].contraction.outputs[0];
    for (KernelStage& stage : result_.stages) {
      for (Access& a : stage.contraction.pieces[0].loads) {
        if (a.tensor == *widened_) a.tensor = all;
      }
    }
  }

  bool add_maximum() {
    KernelStage stage = kernel(parts_.maximum).stages[0];
    maximum_ = stage.contraction.outputs[0];
    IdVector<IteratorId, IteratorId> of(e_.pieces[0].box.size(), IteratorId());
    for (IteratorId u : parts_.distance.of.ids()) {
      if (parts_.distance.of[u].valid()) of[parts_.distance.of[u]] = u;
    }
    if (!place(stage, of)) return false;
    running_ = result_.stages.add(std::move(stage));
    add_finite_maximum();
    return true;
  }

  // Distances are to zero while the maximum is -inf, so that their exponentials are zero.
  void add_finite_maximum() {
    BoundTensor of = tensor(maximum_);
    finite_ = add_tensor(of.name + "_finite", of.type, of.shape);
    KernelStage stage;
    stage.attach = running_;
    stage.contraction = pointwise(finite_);
    Piece& piece = stage.contraction.pieces[0];
    piece.loads = {at_cell(piece.stores[0], maximum_)};
    DType type = compute_type(of.type);
    Body& body = piece.body;
    NodeId m = body.cast(body.load(0, of.type), type);
    NodeId least = body.real(-std::numeric_limits<double>::infinity(), type);
    NodeId none = body.operation(Op::eq, {m, least}, DType::bool_);
    body.results = {body.operation(Op::select, {none, body.real(0, type), m}, type)};
    result_.stages.push_back(std::move(stage));
  }

  void add_exponential() {
    const Kernel& from = kernel(parts_.exponential);
    KernelStage stage = from.stages[0];
    stage.contraction.pieces[0].loads[parts_.distance.load].tensor = finite_;
    stage.rows = parts_.rows;
    stage.stream = parts_.distance.axis;
    add_attached(from, result_.stages.add(std::move(stage)));
  }

  bool add_sum(const Sum& sum) {
    const Kernel& from = kernel(sum.step);
    KernelStage stage = from.stages[0];
    Contraction& c = stage.contraction;
    TensorId out = c.outputs[0];
    TensorId raw = add_tensor(tensor(out).name + "_sum", c.accumulator, tensor(out).shape);
    c.outputs = {raw};
    c.pieces[0].stores[0].tensor = raw;
    if (!read_weight(c.pieces[0], sum) || !place(stage, sum.of)) return false;
    stage.rescale = running_;
    std::optional<KernelStage> result = result_of(sum, out, raw);
    if (!result) return false;
    StageId at = result_.stages.add(std::move(stage));
    result->attach = at;
    result_.stages.push_back(std::move(*result));
    add_attached(from, at);
    return true;
  }

  // The sum's load of a multiple becomes one of the weight.
  bool read_weight(Piece& piece, const Sum& sum) const {
    if (sum.multiple == nullptr) return true;
    std::map<TensorId, std::vector<IteratorId>> dims =
        result_dimensions(kernel(parts_.exponential));
    Access read;
    read.tensor = sum.weight;
    for (IteratorId u : dims.at(sum.weight)) {
      IteratorId mine = u.valid() ? sum.of[u] : u;
      bool one = !u.valid() || e_.pieces[0].box[u] == 1;
      if (!mine.valid() && !one) return false;
      Affine form = mine.valid() ? iterator_affine(mine) : constant_affine(0);
      read.index.push_back({form, -1, Boundary::in_range});
    }
    piece.loads[sum.load] = read;
    DType type = tensor(sum.weight).type;
    piece.body = rewritten(piece.body, [&](Body& body, const Node& n) -> NodeId {
      bool mine = n.kind == NodeKind::load && n.slot == sum.load;
      if (mine) return body.cast(body.load(n.slot, type), n.type);
      return NodeId();
    });
    return true;
  }

  // Forms over another piece's iterators at a cell of `out`, whose dimensions the sum's parallel
  // dimensions are.
  std::optional<std::vector<Affine>> at_cell_of(const Piece& sum,
                                                const IdVector<IteratorId, IteratorId>& of,
                                                const Piece& other) const {
    std::vector<Affine> forms(other.box.size(), constant_affine(0));
    for (size_t u = 0; u < other.box.size(); ++u) {
      if (!of[u].valid()) {
        if (other.box[u] != 1) return std::nullopt;
        continue;
      }
      bool parallel_dim = sum.is_parallel(of[u]);
      if (!parallel_dim) continue;
      for (size_t d = 0; d < sum.stores[0].index.size(); ++d) {
        bool here = sole_iterator(sum.stores[0].index[d], sum) == of[u];
        if (here) forms[u] = iterator_affine(d);
      }
    }
    return forms;
  }
  // The same access at those forms; nothing where it depends on an iterator that the sum reduces.
  static std::optional<Access> moved(const Access& a, const std::vector<Affine>& forms,
                                     const Piece& sum, const IdVector<IteratorId, IteratorId>& of) {
    Access result = a;
    for (Index& index : result.index) {
      if (index.value >= 0) return std::nullopt;
      for (size_t u = 0; u < of.size(); ++u) {
        bool reduced = of[u].valid() && !sum.is_parallel(of[u]);
        if (reduced && !index.affine.coefficient(u).is_zero()) return std::nullopt;
      }
      index.affine = substitute(index.affine, forms);
    }
    return result;
  }

  // What the program calls the sum: the weights' sum, NaN where the maximum is not finite, times
  // the multiple's factor.
  std::optional<KernelStage> result_of(const Sum& sum, TensorId out, TensorId raw) const {
    const Piece& piece = kernel(sum.step).stages[0].contraction.pieces[0];
    KernelStage stage;
    stage.contraction = pointwise(out);
    Contraction& c = stage.contraction;
    c.accumulator = tensor(raw).type;
    Piece& made = c.pieces[0];
    const Access& top = e_.pieces[0].loads[parts_.distance.load];
    std::optional<std::vector<Affine>> forms = at_cell_of(piece, sum.of, e_.pieces[0]);
    std::optional<Access> read = forms ? moved(top, *forms, piece, sum.of) : std::nullopt;
    if (!read) return std::nullopt;
    read->tensor = maximum_;
    made.loads = {at_cell(made.stores[0], raw), *read};
    DType type = tensor(raw).type;
    Body& body = made.body;
    NodeId m = body.cast(body.load(1, tensor(maximum_).type), type);
    NodeId nothing = body.operation(Op::sub, {m, m}, type);
    NodeId value = body.operation(Op::add, {body.load(0, type), nothing}, type);
    if (sum.multiple != nullptr) {
      std::optional<NodeId> scaled = times_factor(sum, piece, made, value);
      if (!scaled) return std::nullopt;
      value = *scaled;
    }
    body.results = {body.cast(value, type)};
    return stage;
  }

  static bool is_float_cast(const Node& n) {
    return n.kind == NodeKind::operation && n.op == Op::cast && is_float(n.type);
  }
  static bool depends_on(const Body& body, NodeId id, NodeId value) {
    IdVector<NodeId, bool> depends(body.nodes.size(), false);
    depends[value] = true;
    for (size_t n = 0; n < body.nodes.size(); ++n) {
      for (NodeId arg : body.nodes[NodeId(n)].args) {
        if (depends[arg]) depends[NodeId(n)] = true;
      }
    }
    return depends[id];
  }

  // What the multiple rounds is rounded once, with the weights: a sum of numbers of a narrow type
  // is none of that type.
  std::optional<NodeId> times_factor(const Sum& sum, const Piece& piece, Piece& made,
                                     NodeId value) const {
    const Piece& p = sum.multiple->pieces[0];
    std::optional<std::vector<Affine>> forms = at_cell_of(piece, sum.of_multiple, p);
    if (!forms) return std::nullopt;
    bool failed = false;
    NodeId result = p.body.results[0];
    while (is_float_cast(p.body[result])) result = p.body[result].args[0];
    NodeId root = graft(made.body, p.body, result, [&](Body& body, const Node& n) {
      if (n.kind == NodeKind::index) failed = true;
      if (n.kind == NodeKind::operation && n.op == Op::cast) {
        if (body[n.args[0]].type == n.type) return n.args[0];
        bool rounds = is_float_cast(n) && depends_on(body, n.args[0], value);
        return rounds ? body.cast(n.args[0], compute_type(n.type)) : NodeId{-1};
      }
      if (n.kind != NodeKind::load) return NodeId{-1};
      const Access& load = p.loads[n.slot];
      if (load.tensor == sum.weight) {
        DType type = compute_type(n.type);
        failed = failed || byte_size(type) < byte_size(body[value].type);
        return body.cast(value, type);
      }
      std::optional<Access> there = moved(load, *forms, piece, sum.of_multiple);
      failed = failed || !there || !n.args.empty();
      if (failed) return value;
      made.loads.push_back(*there);
      return body.load(made.loads.size() - 1, n.type);
    });
    if (failed) return std::nullopt;
    return root;
  }

  const std::vector<std::optional<Step>>& steps_;
  const Parts& parts_;
  const Contraction& e_;
  Kernel result_;
  TensorId maximum_, finite_;
  StageId running_;
  std::optional<TensorId> widened_;  // the program's tensor of terms that have conditions
};

}  // namespace

std::optional<Kernel> streamed_kernel(const std::vector<std::optional<Step>>& steps,
                                      const BoundProgram& program, const Parts& parts) {
  return StreamBuilder(steps, program, parts).build();
}

}  // namespace tile::stream
