// A sum of sums of the same form is one sum: S = sum over b of A0[b] B0[b] + sum over b of A1[b]
// B1[b] + … is the sum over k and b of A[k, b] B[k, b], where A and B hold the tensors one behind
// the other. The gradient of weights that the steps of a loop written out share is such a sum;
// added up, it would store one tensor of their size for each step. Terms are the same, in another
// order of addition, as a long sum may have. Done where the copies have fewer elements than what is
// not stored any more.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/ir/analysis/accesses.h"
#include "core/ir/text.h"
#include "core/passes/optimize/optimize.h"
#include "core/passes/optimize/whole_sums.h"
#include "core/support/checked.h"
#include "core/support/control.h"

namespace tile {
namespace {

using Tensors = std::vector<TensorId>;

// A statement of one piece that is the sum of what its loads give.
bool is_plain_sum(const Contraction& c, const BoundTensors& tensors) {
  if (c.pieces.size() != 1 || c.accumulator == DType::bool_) return false;
  const Piece& piece = c.pieces[0];
  bool reduces = piece.parallel_dims < piece.box.size();
  bool points = std::all_of(piece.box.begin(), piece.box.end(), [](int64_t n) { return n > 0; });
  return reduces && points && c.aggregation == Aggregation::sum && !piece.loads.empty() &&
         tensors[c.outputs[0]].type == c.accumulator;
}

// What sums of the same form have in common, as text.
std::string form_of(const Contraction& c, const BoundTensors& tensors) {
  BoundProgram alone;
  Contraction form = c;
  Piece& piece = form.pieces[0];
  for (size_t u = 0; u < piece.iterators.size(); ++u) piece.iterators[u] = "x" + std::to_string(u);
  auto place = [&](TensorId& id) {
    BoundTensor t;
    t.name = "T" + std::to_string(alone.tensors.size());
    t.type = tensors[id].type;
    t.shape = tensors[id].shape;
    id = alone.tensors.add(std::move(t));
  };
  place(form.outputs[0]);
  piece.stores[0].tensor = form.outputs[0];
  for (Access& load : piece.loads) place(load.tensor);
  alone.statements.emplace_back(std::move(form));
  return print(alone);
}

class Stacking {
 public:
  explicit Stacking(BoundProgram& program) : program_(program), uses_(program) {}

  void run() {
    size_t count = program_.statements.size();
    std::vector<std::vector<BoundStatement>> before(count);
    for (size_t s = 0; s < count; ++s) {
      checkpoint();
      auto* c = std::get_if<Contraction>(&program_.statements[s]);
      // Narrow terms are rounded one by one.
      bool exact = c != nullptr && program_.tensors[c->outputs[0]].type == c->accumulator;
      std::optional<Tensors> terms = exact ? whole_sum(*c, program_.tensors) : std::nullopt;
      if (terms) rewrite(*c, *terms, before[s]);
      note_stack(s);
    }
    insert_statements(program_, std::move(before), gone_);
  }

 private:
  struct Stack {
    TensorId tensor;
    Tensors parts;  // in order
  };
  const Contraction& statement(size_t s) const {
    return std::get<Contraction>(program_.statements[s]);
  }
  const Piece& piece(size_t s) const { return statement(s).pieces[0]; }
  double elements(TensorId id) const {
    return static_cast<double>(element_count(program_.tensors[id].shape));
  }

  void rewrite(Contraction& sum, const Tensors& terms, std::vector<BoundStatement>& before) {
    std::map<std::string, std::vector<size_t>> forms;  // their makers
    std::map<TensorId, std::string> form;
    for (TensorId id : terms) {
      std::optional<size_t> maker = uses_.sole_maker(id);
      if (!maker || !is_plain_sum(statement(*maker), program_.tensors)) continue;
      form[id] = form_of(statement(*maker), program_.tensors);
      forms[form[id]].push_back(*maker);
    }
    std::erase_if(forms, [&](const auto& f) { return !pays(f.second); });
    if (forms.empty()) return;
    Tensors left;
    TensorId result = sum.outputs[0];
    Span span = sum.span;
    std::set<std::string> done;
    for (TensorId id : terms) {
      auto at = form.contains(id) ? forms.find(form[id]) : forms.end();
      if (at == forms.end()) {
        left.push_back(id);
      } else if (done.insert(at->first).second) {
        // The first one's tensor takes the whole sum.
        left.push_back(id);
        Contraction one = stacked(std::move(at->second), before);
        one.outputs = {id};
        one.pieces[0].stores[0].tensor = id;
        before.emplace_back(std::move(one));
      }
    }
    if (left.size() > 1) {
      sum = sum_of_whole(result, left, program_.tensors, span);
      return;
    }
    sum = std::get<Contraction>(std::move(before.back()));
    before.pop_back();
    sum.outputs = {result};
    sum.pieces[0].stores[0].tensor = result;
  }

  // The loads whose tensors are not the same in all.
  std::vector<size_t> differing(const std::vector<size_t>& makers) const {
    std::vector<size_t> slots;
    for (size_t l = 0; l < piece(makers[0]).loads.size(); ++l) {
      bool same = std::all_of(makers.begin(), makers.end(), [&](size_t m) {
        return piece(m).loads[l].tensor == piece(makers[0]).loads[l].tensor;
      });
      if (!same) slots.push_back(l);
    }
    return slots;
  }
  bool pays(const std::vector<size_t>& makers) const {
    if (makers.size() < 2) return false;
    double copied = 0;
    std::vector<size_t> slots = differing(makers);
    for (size_t l : slots) copied += elements(piece(makers[0]).loads[l].tensor);
    return !slots.empty() && copied <= elements(statement(makers[0]).outputs[0]);
  }

  Contraction stacked(std::vector<size_t> makers, std::vector<BoundStatement>& before) {
    std::vector<size_t> slots = differing(makers);
    for (size_t l : slots) {
      if (const Stack* known = stack_of(tensors_at(makers, l))) {
        sort_like(makers, l, known->parts);
        break;
      }
    }
    Contraction all = statement(makers[0]);
    Piece& one = all.pieces[0];
    size_t k = one.iterators.size();
    one.iterators.push_back(fresh_iterator(one));
    one.box.push_back(static_cast<int64_t>(makers.size()));
    for (size_t l : slots) {
      Access& load = one.loads[l];
      load.tensor = stack(tensors_at(makers, l), before);
      load.index.insert(load.index.begin(), {iterator_affine(k)});
    }
    gone_.insert(makers.begin(), makers.end());
    return all;
  }
  static std::string fresh_iterator(const Piece& piece) {
    std::string name = "k";
    while (std::find(piece.iterators.begin(), piece.iterators.end(), name) !=
           piece.iterators.end()) {
      name += "'";
    }
    return name;
  }
  Tensors tensors_at(const std::vector<size_t>& makers, size_t load) const {
    Tensors list;
    for (size_t m : makers) list.push_back(uses_.origin(piece(m).loads[load].tensor));
    return list;
  }
  // The order of the sums in which their operands stand in a stack that is there.
  void sort_like(std::vector<size_t>& makers, size_t load, const Tensors& parts) const {
    auto place = [&](size_t m) {
      TensorId part = uses_.origin(piece(m).loads[load].tensor);
      return std::find(parts.begin(), parts.end(), part) - parts.begin();
    };
    std::stable_sort(makers.begin(), makers.end(),
                     [&](size_t a, size_t b) { return place(a) < place(b); });
  }

  // A stack of the same tensors, once each, in any order.
  const Stack* stack_of(Tensors parts) const {
    std::sort(parts.begin(), parts.end());
    auto at = known_.find(parts);
    return at == known_.end() ? nullptr : &at->second;
  }
  void note(TensorId tensor, const Tensors& parts) {
    Tensors sorted = parts;
    std::sort(sorted.begin(), sorted.end());
    bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
    if (!twice) known_.try_emplace(std::move(sorted), Stack{tensor, parts});
  }

  // A statement whose piece k copies one tensor to [k, …], for every k.
  void note_stack(size_t s) {
    const auto* c = std::get_if<Contraction>(&program_.statements[s]);
    if (c == nullptr || !c->normalized || c->outputs.size() != 1 || c->fill || c->pieces.size() < 2)
      return;
    const BoundTensor& whole = program_.tensors[c->outputs[0]];
    if (whole.shape.empty() || whole.shape[0] != static_cast<int64_t>(c->pieces.size())) return;
    Tensors parts(c->pieces.size());
    for (const Piece& p : c->pieces) {
      std::optional<int64_t> at = copied_to(p, whole);
      if (!at || parts[static_cast<size_t>(*at)].valid()) return;
      parts[static_cast<size_t>(*at)] = uses_.origin(p.loads[0].tensor);
    }
    note(c->outputs[0], parts);
  }
  // The k of a piece that copies a tensor whole.
  std::optional<int64_t> copied_to(const Piece& p, const BoundTensor& whole) const {
    bool copies = p.loads.size() == 1 && p.constraints.empty() && p.parallel_dims == p.box.size() &&
                  p.body[p.body.results[0]].kind == NodeKind::load &&
                  p.box.size() + 1 == whole.shape.size();
    if (!copies) return std::nullopt;
    const BoundTensor& part = program_.tensors[p.loads[0].tensor];
    const std::vector<Index>&to = p.stores[0].index, &from = p.loads[0].index;
    if (part.type != whole.type || from.size() != p.box.size()) return std::nullopt;
    for (size_t d = 0; d < from.size(); ++d) {
      bool same = is_plain_index(from[d]) && from[d].affine == iterator_affine(d) &&
                  to[d + 1].affine == iterator_affine(d) && part.shape[d] == p.box[IteratorId(d)] &&
                  whole.shape[d + 1] == part.shape[d];
      if (!same) return std::nullopt;
    }
    if (!to[0].affine.is_constant()) return std::nullopt;
    return to[0].affine.constant.num();
  }

  // The tensors one behind the other.
  TensorId stack(const Tensors& parts, std::vector<BoundStatement>& before) {
    const Stack* known = stack_of(parts);
    if (known != nullptr && known->parts == parts) return known->tensor;
    const BoundTensor& one = program_.tensors[parts[0]];
    IterationBox box;
    for (int64_t extent : one.shape) box.push_back(extent);
    const DType type = one.type;
    BoundTensor whole;
    whole.name = uses_.fresh_name(one.name + "_stack");
    whole.type = type;
    whole.shape = one.shape;
    whole.shape.insert(whole.shape.begin(), static_cast<int64_t>(parts.size()));
    Contraction c;
    c.outputs = {program_.tensors.add(std::move(whole))};
    c.accumulator = type;
    c.normalized = true;
    for (size_t k = 0; k < parts.size(); ++k) {
      Piece p = over_box(c.outputs[0], box);
      p.loads = {{parts[k], identity_index(box.size()), {}}};
      p.stores[0].index.insert(p.stores[0].index.begin(),
                               {constant_affine(static_cast<int64_t>(k))});
      p.body.results = {p.body.load(0, type)};
      c.pieces.push_back(std::move(p));
    }
    TensorId made = c.outputs[0];
    before.emplace_back(std::move(c));
    note(made, parts);
    return made;
  }

  BoundProgram& program_;
  TensorUses uses_;
  std::map<Tensors, Stack> known_;  // by the parts in the order of their numbers
  std::set<size_t> gone_;
};

}  // namespace

void stack_sums(BoundProgram& program, const Target&) { Stacking(program).run(); }

}  // namespace tile
