#include "core/ir/repeat.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/support/control.h"

namespace tile {
namespace {

using Rename = std::function<TensorId(TensorId)>;

struct Renamer {
  const Rename& to;
  void operator()(SymbolicContraction& c) const {
    for (SymbolicAccess& a : c.accesses) a.tensor = to(a.tensor);
    if (c.default_tensor) c.default_tensor = to(*c.default_tensor);
  }
  void operator()(Elementwise& e) const { all(e.operands); }
  void operator()(Call& c) const { all(c.tensors); }
  void operator()(Literal&) const {}
  void operator()(Repeat& r) const { all(r.operands); }
  void all(std::vector<TensorId>& ids) const {
    for (TensorId& id : ids) id = to(id);
  }
};

// Statements and tensors of one program after the other, in order.
class Writer {
 public:
  explicit Writer(const Program& program)
      : from_(program), out_(program), to_(program.tensors.size()) {
    for (const Tensor& t : program.tensors) names_.insert(t.name);
    out_.tensors = {};
    out_.statements.clear();
    for (TensorId id : program.inputs) to_[id] = out_.tensors.add(program.tensors[id]);
  }

  Program run() {
    for (const Statement& s : from_.statements) {
      const auto* repeat = std::get_if<Repeat>(&s.what);
      to_[s.result] = repeat == nullptr
                          ? copy(s, from_.tensors[s.result], [&](TensorId id) { return to_[id]; })
                          : write_out(s, *repeat);
    }
    for (TensorId& id : out_.inputs) id = to_[id];
    for (TensorId& id : out_.outputs) id = to_[id];
    for (Tensor& t : out_.tensors) {
      if (t.seed_of) t.seed_of = to_[*t.seed_of];
    }
    return std::move(out_);
  }

 private:
  TensorId copy(Statement s, Tensor tensor, const Rename& to) {
    constexpr size_t kMostStatements = 20'000;
    if (out_.statements.size() >= kMostStatements) {
      fail(
          Stage::compile, "limit", s.span,
          "the steps of this loop are more than " + std::to_string(kMostStatements) + " statements",
          "its gradient, and its parts on a mesh, take the statements of every step");
    }
    checkpoint_at(s.span);
    rename_tensors(s, [&](TensorId id) { return id == s.result ? TensorId() : to(id); });
    s.result = out_.tensors.add(std::move(tensor));
    out_.statements.push_back(std::move(s));
    return out_.statements.back().result;
  }

  TensorId write_out(const Statement& whole, const Repeat& repeat) {
    const Program step = with_repeats_written_out(*repeat.step);
    TensorId state = to_[repeat.operands[0]];
    for (int64_t trip = 1; trip <= repeat.trips; ++trip) {
      std::map<TensorId, TensorId> now;
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        now[step.inputs[i]] = i == 0 ? state : to_[repeat.operands[i]];
      }
      for (const Statement& s : step.statements) {
        bool last = trip == repeat.trips && s.result == step.outputs[0];
        Tensor tensor = last ? from_.tensors[whole.result] : step.tensors[s.result];
        if (!last) tensor.name = unused(tensor.name, trip);
        now[s.result] = copy(s, std::move(tensor), [&](TensorId id) { return now.at(id); });
      }
      state = now.at(step.outputs[0]);
    }
    return state;
  }

  std::string unused(const std::string& name, int64_t trip) {
    std::string own = name + "_" + std::to_string(trip);
    while (!names_.insert(own).second) own += "_";
    return own;
  }

  const Program& from_;
  Program out_;
  IdVector<TensorId, TensorId> to_;
  std::set<std::string> names_;
};

}  // namespace

void rename_tensors(Statement& statement, const Rename& to) {
  statement.result = to(statement.result);
  std::visit(Renamer{to}, statement.what);
}

Program take_out_step(Program& program, size_t first, TensorId state, TensorId next,
                      std::vector<TensorId>& operands) {
  Program step;
  step.source = program.source;
  std::map<TensorId, TensorId> to;
  auto input = [&](TensorId id) {
    auto [known, fresh] = to.emplace(id, TensorId());
    if (!fresh) return;
    Tensor tensor = program.tensors[id];
    tensor.parameter.reset();
    tensor.ranked = false;
    tensor.dims.clear();
    tensor.dim_spans.clear();
    known->second = step.tensors.add(std::move(tensor));
    step.inputs.push_back(known->second);
    if (id != state) operands.push_back(id);
  };
  input(state);
  for (size_t i = first; i < program.statements.size(); ++i) {
    Statement read = program.statements[i];
    rename_tensors(read, [&](TensorId id) {
      if (id < state) input(id);
      return id;
    });
  }
  for (size_t i = first; i < program.statements.size(); ++i) {
    Statement s = std::move(program.statements[i]);
    to[s.result] = step.tensors.add(program.tensors[s.result]);
    rename_tensors(s, [&](TensorId id) { return to.at(id); });
    step.statements.push_back(std::move(s));
  }
  step.outputs = {to.at(next)};
  step.output_spans = {step.tensors[step.outputs[0]].span};
  program.statements.resize(first);
  while (program.tensors.size() > state.index()) program.tensors.pop_back();
  return step;
}

Program with_repeats_written_out(const Program& program) {
  bool any = std::any_of(program.statements.begin(), program.statements.end(),
                         [](const auto& s) { return std::holds_alternative<Repeat>(s.what); });
  return any ? Writer(program).run() : program;
}

}  // namespace tile
