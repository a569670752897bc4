// Kernels with a streamed axis, found from the bodies: a maximum along an axis, exponentials of the
// distances to it, and sums of multiples of those (attention). A factor of the terms that does not
// depend on the axis (the division by the sum) is applied to the sums instead.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "core/passes/uses.h"
#include "core/schedule/group.h"
#include "core/schedule/rows.h"
#include "core/schedule/stream.h"
#include "core/schedule/stream_pattern.h"

namespace tile {
namespace {

bool contains(const std::vector<TensorId>& list, TensorId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

// Which unknown of the first stage each dimension of the kernel's results is.
std::map<TensorId, std::vector<int>> result_dimensions(const Kernel& kernel) {
  Kernel all = kernel;
  for (KernelStage& s : all.stages) s.rows.clear();
  for (size_t u = 0; u < all.stages[0].contraction.pieces[0].owners; ++u) {
    all.stages[0].rows.push_back(static_cast<int>(u));
  }
  return row_map(all).dimensions;
}

// One sum of weights: the kernel that makes it, and how its unknowns are the weights'.
struct Sum {
  size_t step = 0;
  TensorId weight = -1;  // what its terms are multiples of, made where the exponential is
  TensorId read = -1;    // what it reads: the weight, or a multiple of it…
  size_t load = 0;       // …here
  std::vector<int> of;   // by unknown of the exponential: the sum's; -1: none
  const Contraction* multiple = nullptr;  // that makes `read` of the weight
  std::vector<int> of_multiple;           // by unknown of that: the sum's; -1: none
};

// The parts of one streamed kernel.
struct Parts {
  size_t exponential = 0, maximum = 0;  // steps
  std::optional<size_t> terms;          // the step that makes x, if it can join
  stream::Distance distance;
  std::vector<int> rows;  // unknowns of the exponential
  std::vector<Sum> sums;
  std::vector<size_t> multiples;  // steps whose results are read by the sums only
};

class PartsFinder {
 public:
  PartsFinder(const std::vector<std::optional<Step>>& steps, const BoundProgram& program)
      : steps_(steps), program_(program) {}

  std::optional<Parts> at(size_t exponential) const {
    const Kernel* e = kernel(exponential);
    if (e == nullptr || has_stream(*e)) return std::nullopt;
    const Contraction& c = e->stages[0].contraction;
    bool pointwise = c.pieces.size() == 1 && c.outputs.size() == 1 && c.normalized && !c.fill &&
                     c.pieces[0].owners == c.pieces[0].box.size() &&
                     c.pieces[0].constraints.empty();
    if (!pointwise) return std::nullopt;
    Parts parts;
    parts.exponential = exponential;
    if (!find_maximum(c.pieces[0], parts)) return std::nullopt;
    for (size_t u = 0; u < c.pieces[0].box.size(); ++u) {
      bool row = u != parts.distance.axis && c.pieces[0].box[u] != 1;
      if (row) parts.rows.push_back(static_cast<int>(u));
    }
    if (parts.rows.empty()) return std::nullopt;
    find_terms(c.pieces[0], parts);
    if (!find_sums(*e, parts) || parts.sums.empty()) return std::nullopt;
    return parts;
  }

 private:
  const Kernel* kernel(size_t i) const {
    return steps_[i] ? std::get_if<Kernel>(&*steps_[i]) : nullptr;
  }
  std::optional<size_t> maker(TensorId id) const {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Kernel* k = kernel(i);
      if (k == nullptr) continue;
      for (const KernelStage& s : k->stages) {
        if (contains(s.contraction.outputs, id)) return i;
      }
    }
    return std::nullopt;
  }

  bool find_maximum(const Piece& e, Parts& parts) const {
    for (const Access& load : e.loads) {
      std::optional<size_t> made = maker(load.tensor);
      const Kernel* k = made ? kernel(*made) : nullptr;
      if (k == nullptr || k->stages.size() != 1) continue;
      std::optional<stream::Distance> d = stream::distance_to(e, k->stages[0].contraction);
      if (!d) continue;
      parts.maximum = *made;
      parts.distance = std::move(*d);
      return true;
    }
    return false;
  }

  // What makes the values whose maximum is taken, where it has the axis.
  void find_terms(const Piece& e, Parts& parts) const {
    for (size_t load : parts.distance.x_loads) {
      std::optional<size_t> made = maker(e.loads[load].tensor);
      const Kernel* k = made ? kernel(*made) : nullptr;
      bool joins = k != nullptr && !has_stream(*k) && k->stages[0].contraction.pieces.size() == 1;
      bool has_axis = std::any_of(
          e.loads[load].index.begin(), e.loads[load].index.end(), [&](const Index& index) {
            return stream::unknown_of(index, e) == static_cast<int>(parts.distance.axis);
          });
      if (!joins || !has_axis) continue;
      parts.terms = made;
      return;
    }
  }

  std::vector<size_t> readers(TensorId id, size_t except) const {
    std::vector<size_t> list;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (!steps_[i] || i == except) continue;
      std::vector<TensorId> reads;
      if (const Kernel* k = kernel(i)) {
        for (const KernelStage& s : k->stages) {
          for (TensorId read : read_by(BoundStatement(s.contraction))) reads.push_back(read);
        }
      } else if (const Sort* sort = std::get_if<Sort>(&*steps_[i])) {
        reads = read_by(BoundStatement(*sort));
      } else {
        reads = read_by(BoundStatement(std::get<Scatter>(*steps_[i])));
      }
      if (contains(reads, id)) list.push_back(i);
    }
    return list;
  }
  // Read by other statements of the program only.
  bool is_inner(TensorId id) const {
    bool output = contains(program_.outputs, id);
    return !output && std::none_of(program_.tensors.begin(), program_.tensors.end(),
                                   [&](const BoundTensor& t) { return t.view_of == id; });
  }

  bool find_sums(const Kernel& e, Parts& parts) const {
    std::map<TensorId, std::vector<int>> dims = result_dimensions(e);
    for (const KernelStage& stage : e.stages) {
      TensorId weight = stage.contraction.outputs[0];
      if (!is_inner(weight)) return false;
      for (size_t reader : readers(weight, parts.exponential)) {
        if (!add_reader(reader, weight, dims.at(weight), e, parts)) return false;
      }
    }
    return true;
  }

  // By unknown of the exponential, from what dimensions stand for in it and in the reader.
  static std::vector<int> composed(const std::vector<int>& dims, const std::vector<int>& of,
                                   size_t unknowns) {
    std::vector<int> result(unknowns, -1);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] >= 0) result[static_cast<size_t>(dims[d])] = of[d];
    }
    return result;
  }

  bool add_reader(size_t reader, TensorId weight, const std::vector<int>& dims, const Kernel& e,
                  Parts& parts) const {
    const Kernel* k = kernel(reader);
    if (k == nullptr) return false;
    const Contraction& c = k->stages[0].contraction;
    size_t unknowns = e.stages[0].contraction.pieces[0].box.size();
    if (std::optional<stream::LinearSum> sum = stream::linear_sum(c, weight)) {
      parts.sums.push_back(
          {reader, weight, weight, sum->load, composed(dims, sum->of, unknowns), nullptr, {}});
      return true;
    }
    std::optional<stream::Multiple> multiple = stream::multiple_of(c, weight);
    if (!multiple || k->stages.size() != 1 || !is_inner(c.outputs[0])) return false;
    parts.multiples.push_back(reader);
    std::vector<int> at = composed(dims, multiple->of, unknowns);  // the multiple's unknowns
    const Piece& p = c.pieces[0];
    std::vector<int> stored;
    for (const Index& index : p.stores[0].index) stored.push_back(stream::unknown_of(index, p));
    for (size_t user : readers(c.outputs[0], reader)) {
      const Kernel* last = kernel(user);
      if (last == nullptr) return false;
      std::optional<stream::LinearSum> sum =
          stream::linear_sum(last->stages[0].contraction, c.outputs[0]);
      if (!sum) return false;
      Sum found{user, weight, c.outputs[0], sum->load, at, &c, {}};
      found.of_multiple = composed(stored, sum->of, p.box.size());
      for (int& u : found.of) u = u < 0 ? -1 : found.of_multiple[static_cast<size_t>(u)];
      parts.sums.push_back(std::move(found));
    }
    return true;
  }

  const std::vector<std::optional<Step>>& steps_;
  const BoundProgram& program_;
};

// Puts the parts together.
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
    result_.name = result_
                       .tensors[static_cast<size_t>(
                           kernel(parts_.sums.back().step).stages[0].contraction.outputs[0])]
                       .name;
    return std::move(result_);
  }

 private:
  const Kernel& kernel(size_t step) const { return std::get<Kernel>(*steps_[step]); }
  const BoundTensor& tensor(TensorId id) const { return result_.tensors[static_cast<size_t>(id)]; }

  // The stage's unknown for each row and for the axis, where `of` says which unknown of the stage
  // each of the exponential's is.
  bool place(KernelStage& stage, const std::vector<int>& of) const {
    for (int u : parts_.rows) stage.rows.push_back(of[static_cast<size_t>(u)]);
    stage.stream = of[parts_.distance.axis];
    return stage.stream >= 0 &&
           std::count_if(stage.rows.begin(), stage.rows.end(), [](int u) { return u < 0; }) == 0;
  }
  TensorId add_tensor(const std::string& name, DType type, Shape shape) {
    BoundTensor t;
    t.name = name;
    t.type = type;
    t.shape = std::move(shape);
    result_.tensors.push_back(std::move(t));
    return static_cast<TensorId>(result_.tensors.size()) - 1;
  }
  void add_attached(const Kernel& from, int to) {
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
    piece.box = tensor(output).shape;
    piece.owners = piece.box.size();
    Access store;
    store.tensor = output;
    for (size_t d = 0; d < piece.box.size(); ++d) {
      piece.unknowns.push_back("i" + std::to_string(d));
      store.index.push_back({unknown_affine(d), -1, Boundary::in_range});
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
    const Kernel& from = kernel(*parts_.terms);
    const Piece& e = e_.pieces[0];
    std::map<TensorId, std::vector<int>> dims = result_dimensions(from);
    std::vector<int> of(e.box.size(), -1);
    for (size_t load : parts_.distance.x_loads) {
      auto made = dims.find(e.loads[load].tensor);
      if (made == dims.end()) continue;
      for (size_t d = 0; d < made->second.size(); ++d) {
        int u = stream::unknown_of(e.loads[load].index[d], e);
        if (u >= 0) of[static_cast<size_t>(u)] = made->second[d];
      }
    }
    KernelStage stage = from.stages[0];
    if (!place(stage, of)) return false;
    result_.stages.push_back(std::move(stage));
    add_attached(from, 0);
    return true;
  }

  bool add_maximum() {
    KernelStage stage = kernel(parts_.maximum).stages[0];
    maximum_ = stage.contraction.outputs[0];
    std::vector<int> of(e_.pieces[0].box.size(), -1);
    for (size_t u = 0; u < parts_.distance.of.size(); ++u) {
      if (parts_.distance.of[u] >= 0) {
        of[static_cast<size_t>(parts_.distance.of[u])] = static_cast<int>(u);
      }
    }
    if (!place(stage, of)) return false;
    running_ = static_cast<int>(result_.stages.size());
    result_.stages.push_back(std::move(stage));
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
    stage.stream = static_cast<int>(parts_.distance.axis);
    auto at = static_cast<int>(result_.stages.size());
    result_.stages.push_back(std::move(stage));
    add_attached(from, at);
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
    auto at = static_cast<int>(result_.stages.size());
    std::optional<KernelStage> result = result_of(sum, out, raw);
    if (!result) return false;
    result->attach = at;
    result_.stages.push_back(std::move(stage));
    result_.stages.push_back(std::move(*result));
    add_attached(from, at);
    return true;
  }

  // The sum's load of a multiple becomes one of the weight.
  bool read_weight(Piece& piece, const Sum& sum) const {
    if (sum.multiple == nullptr) return true;
    std::map<TensorId, std::vector<int>> dims = result_dimensions(kernel(parts_.exponential));
    Access read;
    read.tensor = sum.weight;
    for (int u : dims.at(sum.weight)) {
      int mine = u < 0 ? -1 : sum.of[static_cast<size_t>(u)];
      bool one = u < 0 || e_.pieces[0].box[static_cast<size_t>(u)] == 1;
      if (mine < 0 && !one) return false;
      Affine form = mine < 0 ? constant_affine(0) : unknown_affine(static_cast<size_t>(mine));
      read.index.push_back({form, -1, Boundary::in_range});
    }
    piece.loads[sum.load] = read;
    DType type = tensor(sum.weight).type;
    piece.body = rewritten(piece.body, [&](Body& body, const Node& n) -> NodeId {
      bool mine = n.kind == NodeKind::load && n.slot == static_cast<int>(sum.load);
      if (mine) return body.cast(body.load(n.slot, type), n.type);
      return -1;
    });
    return true;
  }

  // Forms over another piece's unknowns at a cell of `out`, whose dimensions the sum's owners are.
  std::optional<std::vector<Affine>> at_cell_of(const Piece& sum, const std::vector<int>& of,
                                                const Piece& other) const {
    std::vector<Affine> forms(other.box.size(), constant_affine(0));
    for (size_t u = 0; u < other.box.size(); ++u) {
      if (of[u] < 0) {
        if (other.box[u] != 1) return std::nullopt;
        continue;
      }
      bool owner = static_cast<size_t>(of[u]) < sum.owners;
      if (!owner) continue;
      for (size_t d = 0; d < sum.stores[0].index.size(); ++d) {
        bool here = stream::unknown_of(sum.stores[0].index[d], sum) == of[u];
        if (here) forms[u] = unknown_affine(d);
      }
    }
    return forms;
  }
  // The same access at those forms; nothing where it depends on an unknown that the sum reduces.
  static std::optional<Access> moved(const Access& a, const std::vector<Affine>& forms,
                                     const Piece& sum, const std::vector<int>& of) {
    Access result = a;
    for (Index& index : result.index) {
      if (index.value >= 0) return std::nullopt;
      for (size_t u = 0; u < of.size(); ++u) {
        bool reduced = of[u] >= 0 && static_cast<size_t>(of[u]) >= sum.owners;
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

  std::optional<NodeId> times_factor(const Sum& sum, const Piece& piece, Piece& made,
                                     NodeId value) const {
    const Piece& p = sum.multiple->pieces[0];
    std::optional<std::vector<Affine>> forms = at_cell_of(piece, sum.of_multiple, p);
    if (!forms) return std::nullopt;
    bool failed = false;
    NodeId root = graft(made.body, p.body, p.body.results[0], [&](Body& body, const Node& n) {
      if (n.kind == NodeKind::index) failed = true;
      if (n.kind == NodeKind::operation && n.op == Op::cast && body[n.args[0]].type == n.type) {
        return n.args[0];
      }
      if (n.kind != NodeKind::load) return NodeId{-1};
      const Access& load = p.loads[static_cast<size_t>(n.slot)];
      if (load.tensor == sum.weight) return value;
      std::optional<Access> there = moved(load, *forms, piece, sum.of_multiple);
      failed = failed || !there || !n.args.empty();
      if (failed) return value;
      made.loads.push_back(*there);
      return body.load(static_cast<int>(made.loads.size()) - 1, n.type);
    });
    if (failed) return std::nullopt;
    return root;
  }

  const std::vector<std::optional<Step>>& steps_;
  const Parts& parts_;
  const Contraction& e_;
  Kernel result_;
  TensorId maximum_ = -1, finite_ = -1;
  int running_ = -1;
};

// Tensors of the kernel alone that have the streamed axis, with `row` as their last dimension.
void put_row_last(Kernel& kernel, int row) {
  RowMap map = row_map(kernel);
  auto axis = static_cast<int>(row_loops(kernel));
  for (const auto& [id, dims] : map.dimensions) {
    if (contains(kernel.writes, id)) continue;
    auto at = std::find(dims.begin(), dims.end(), row) - dims.begin();
    bool has_both = at < static_cast<std::ptrdiff_t>(dims.size()) &&
                    std::find(dims.begin(), dims.end(), axis) != dims.end();
    if (!has_both) continue;
    auto last = [&](auto& list) {
      std::rotate(list.begin() + at, list.begin() + at + 1, list.end());
    };
    last(kernel.tensors[static_cast<size_t>(id)].shape);
    for (KernelStage& stage : kernel.stages) {
      for (auto* accesses :
           {&stage.contraction.pieces[0].loads, &stage.contraction.pieces[0].stores}) {
        for (Access& a : *accesses) {
          if (a.tensor == id) last(a.index);
        }
      }
    }
  }
}

class StreamFusion {
 public:
  StreamFusion(std::vector<Step> steps, const BoundProgram& program, const Target& target,
               const std::function<void(Kernel&)>& finish, std::set<TensorId>& gone, bool always)
      : program_(program), target_(target), finish_(finish), gone_(gone), always_(always) {
    for (Step& s : steps) steps_.emplace_back(std::move(s));
  }

  std::vector<Step> run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      std::optional<Parts> parts = PartsFinder(steps_, program_).at(i);
      if (parts) fuse(*parts);
    }
    std::vector<Step> left;
    for (std::optional<Step>& s : steps_) {
      if (s) left.push_back(std::move(*s));
    }
    return left;
  }

 private:
  static std::vector<size_t> members(const Parts& parts) {
    std::set<size_t> all{parts.exponential, parts.maximum};
    if (parts.terms) all.insert(*parts.terms);
    for (const Sum& s : parts.sums) all.insert(s.step);
    all.insert(parts.multiples.begin(), parts.multiples.end());
    return {all.begin(), all.end()};
  }

  // A step between the members reads what a member makes.
  bool read_between(const std::vector<size_t>& list) const {
    std::vector<TensorId> made;
    for (size_t i : list) {
      for (const KernelStage& s : std::get<Kernel>(*steps_[i]).stages) {
        made.insert(made.end(), s.contraction.outputs.begin(), s.contraction.outputs.end());
      }
    }
    for (size_t i = list.front(); i < list.back(); ++i) {
      if (!steps_[i] || std::find(list.begin(), list.end(), i) != list.end()) continue;
      const Kernel* k = std::get_if<Kernel>(&*steps_[i]);
      if (k == nullptr) return true;
      for (const KernelStage& s : k->stages) {
        for (TensorId id : read_by(BoundStatement(s.contraction))) {
          if (contains(made, storage_of(program_, id))) return true;
        }
      }
    }
    return false;
  }

  double cost_apart(const std::vector<size_t>& list) const {
    std::vector<Step> apart;
    for (size_t i : list) apart.push_back(*steps_[i]);
    double total = 0;
    for (const Step& s : fuse_rows(std::move(apart), program_, target_, finish_)) {
      total += compiled_cost(std::get<Kernel>(s), target_, finish_);
    }
    return total;
  }

  void fuse(const Parts& parts) {
    std::vector<size_t> list = members(parts);
    if (read_between(list)) return;
    double apart = always_ ? std::numeric_limits<double>::infinity() : cost_apart(list);
    std::set<TensorId> before = gone_;
    for (size_t i : parts.multiples) {
      gone_.insert(std::get<Kernel>(*steps_[i]).stages[0].contraction.outputs[0]);
    }
    std::optional<Kernel> kernel = cheaper(parts, apart);
    if (!kernel) {
      gone_ = std::move(before);
      return;
    }
    for (size_t i : list) steps_[i].reset();
    steps_[list.back()] = std::move(*kernel);
  }

  // Nothing where it is not legal or does not cost less than `limit`. A row of many cells is the
  // last dimension of what lives for a block: vectors run along it, and nothing reduces lanes.
  std::optional<Kernel> cheaper(const Parts& parts, double limit) const {
    std::optional<Kernel> kernel = StreamBuilder(steps_, program_, parts).build();
    if (!kernel) return std::nullopt;
    finish_(*kernel);
    if (!broken_rows(*kernel).empty()) return std::nullopt;
    size_t row = reused_row(*kernel, target_);
    const KernelStage& first = kernel->stages[0];
    int64_t cells = first.contraction.pieces[0].box[static_cast<size_t>(first.rows[row])];
    if (cells >= target_.vector_bits / 32) put_row_last(*kernel, static_cast<int>(row));
    if (compiled_cost(*kernel, target_, finish_) >= limit) return std::nullopt;
    return kernel;
  }

  const BoundProgram& program_;
  const Target& target_;
  const std::function<void(Kernel&)>& finish_;
  std::set<TensorId>& gone_;
  bool always_;
  std::vector<std::optional<Step>> steps_;
};

}  // namespace

std::vector<Step> fuse_streams(std::vector<Step> steps, const BoundProgram& program,
                               const Target& target, const std::function<void(Kernel&)>& finish,
                               std::set<TensorId>& gone, bool always) {
  return StreamFusion(std::move(steps), program, target, finish, gone, always).run();
}

}  // namespace tile
