#include "tests/fusion/exact_domains.h"

#include <algorithm>
#include <functional>

#include "core/fusion/step_order.h"
#include "core/interpret/interpret.h"
#include "core/interpret/points.h"
#include "core/interpret/whole_tensor.h"
#include "core/ir/analysis/uses.h"

namespace tile::test {
namespace {

constexpr double kMostPoints = 100000;  // of one contraction

double box_points(const Contraction& c) {
  double points = 0;
  for (const Piece& p : c.pieces) points += point_count(p);
  return points;
}

using Visit = std::function<void(const std::vector<int64_t>&)>;
// Of the first `count` iterators; the others are 0.
void visit_box(const Piece& p, size_t count, size_t u, std::vector<int64_t>& x,
               const Visit& visit) {
  if (u == count) return visit(x);
  for (x[u] = 0; x[u] < p.box[u]; ++x[u]) visit_box(p, count, u + 1, x, visit);
  x[u] = 0;
}
void visit_box(const Piece& p, size_t count, const Visit& visit) {
  std::vector<int64_t> x(p.box.size(), 0);
  visit_box(p, count, 0, x, visit);
}

bool holds(const Piece& p, const std::vector<int64_t>& x, bool owners_only) {
  return std::all_of(p.constraints.begin(), p.constraints.end(), [&](const Constraint& c) {
    bool reduces = false;
    for (size_t u = p.parallel_dims; u < p.box.size(); ++u) {
      reduces = reduces || !c.form.coefficient(u).is_zero();
    }
    if (owners_only && reduces) return true;
    Rational v = c.form.evaluate(x);
    return !(v < Rational(c.lo)) && v < Rational(c.hi) && (!c.integral || v.is_integer());
  });
}

// The row-major position of an access in range; -1: outside, -2: not by forms alone.
int64_t position(const Access& a, const Shape& shape, const std::vector<int64_t>& x) {
  int64_t at = 0;
  bool forms = true;
  for (size_t d = 0; d < a.index.size(); ++d) {
    const Index& index = a.index[d];
    if (index.value >= 0 || index.boundary != Boundary::in_range) {
      forms = false;
      continue;
    }
    Rational v = index.affine.evaluate(x);
    if (!v.is_integer() || v.num() < 0 || v.num() >= shape[d]) return -1;
    at = at * shape[d] + v.num();
  }
  return forms ? at : -2;
}

const BoundTensor& tensor_of(const BoundTensors& tensors, TensorId id) { return tensors[id]; }

}  // namespace

std::string broken_domain(const Contraction& c, const BoundTensors& tensors) {
  if (!c.normalized || box_points(c) > kMostPoints) return "";
  std::string broken;
  std::map<TensorId, std::set<int64_t>> owned;
  for (const Piece& p : c.pieces) {
    visit_box(p, p.parallel_dims, [&](const std::vector<int64_t>& x) {
      if (!holds(p, x, true)) return;
      for (const Access& a : p.stores) {
        int64_t at = position(a, tensor_of(tensors, a.tensor).shape, x);
        if (at < 0) broken = "a store outside of " + tensor_of(tensors, a.tensor).name;
        bool first = owned[a.tensor].insert(at).second;
        if (!first) broken = "two owners of a cell of " + tensor_of(tensors, a.tensor).name;
      }
    });
    visit_box(p, p.box.size(), [&](const std::vector<int64_t>& x) {
      if (!holds(p, x, false)) return;
      for (const Access& a : p.loads) {
        bool outside = position(a, tensor_of(tensors, a.tensor).shape, x) == -1;
        if (outside) broken = "a load outside of " + tensor_of(tensors, a.tensor).name;
      }
    });
  }
  return broken;
}

int64_t count_points(const Contraction& c) {
  if (!c.normalized || box_points(c) > kMostPoints) return -1;
  int64_t points = 0;
  for (const Piece& p : c.pieces) {
    visit_box(p, p.box.size(), [&](const auto& x) { points += holds(p, x, false) ? 1 : 0; });
  }
  return points;
}

Touched touched_by(const BoundProgram& program) {
  Touched touched;
  WorkMeter meter(int64_t{1} << 40);
  for (const BoundStatement& s : program.statements) {
    const auto* c = std::get_if<Contraction>(&s);
    bool small = c != nullptr && box_points(*c) <= kMostPoints;
    touched.whole = touched.whole && small;
    if (!small) continue;
    for (TensorId id : c->outputs) {
      touched.cells[id];
      touched.points[id] = 0;
    }
    for (const Piece& p : c->pieces) {
      for_each_point(program, p, {}, meter, [&](std::span<const int64_t> at) {
        std::vector<int64_t> x(at.begin(), at.end());
        for (const Access& a : p.stores) {
          touched.cells[a.tensor].insert(
              position(a, tensor_of(program.tensors, a.tensor).shape, x));
          ++touched.points[a.tensor];
        }
        for (const Access& a : p.loads) {
          const BoundTensor& t = tensor_of(program.tensors, a.tensor);
          int64_t element = position(a, t.shape, x);
          TensorId from = storage_of(program, a.tensor);
          bool input = tensor_of(program.tensors, from).role == TensorRole::input;
          if (element == -2) touched.whole = false;
          if (input && element >= 0) touched.elements[from].insert(element);
        }
      });
    }
  }
  return touched;
}

namespace {

class StepInterpreter {
 public:
  StepInterpreter(const BoundProgram& program, const std::vector<HostTensor>& inputs)
      : program_(program) {
    for (const BoundTensor& t : program.tensors) {
      values_.emplace_back(t.type, t.shape);
      if (t.constant) values_.back().bytes = *t.constant;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      values_[program.inputs[i]] = inputs[i];
    }
  }

  void run(const Step& step) {
    if (const auto* kernel = std::get_if<Kernel>(&step)) return run(*kernel);
    if (const auto* sort = std::get_if<Sort>(&step)) {
      return run_sort(*sort, value(sort->source, sort->source), value(sort->result, sort->result));
    }
    const auto& s = std::get<Scatter>(step);
    run_scatter(s, value(s.updates, s.updates), value(s.indices, s.indices),
                value(s.result, s.result));
  }
  HostTensor result(TensorId id) { return value(id, id); }

 private:
  // The elements of a tensor, in the shape of another name for them.
  HostTensor& value(TensorId id, TensorId named) {
    HostTensor& v = values_[storage_of(program_, id)];
    v.shape = program_.tensors[named].shape;
    return v;
  }

  // The kernel's stages as the statements of a program.
  void run(const Kernel& kernel) {
    BoundProgram p;
    p.tensors = kernel.tensors;
    for (TensorId id : p.tensors.ids()) p.tensors.edit(id).role = TensorRole::temporary;
    StepUse use = use_of(kernel, program_);
    std::vector<HostTensor> inputs;
    for (TensorId id : use.reads) {
      BoundTensor& t = p.tensors.edit(id);
      if (t.constant) continue;
      t.role = TensorRole::input;
      p.inputs.push_back(id);
      inputs.push_back(values_[id]);
      inputs.back().shape = t.shape;
    }
    // What the kernel alone has may have other cells than the program's tensor.
    for (TensorId id : use.makes) {
      auto at = id.index();
      bool same = at < values_.size() &&
                  element_count(p.tensors[at].shape) == element_count(program_.tensors[at].shape);
      if (same) p.outputs.push_back(id);
    }
    for (const KernelStage& s : kernel.stages) p.statements.emplace_back(s.contraction);
    std::vector<HostTensor> results = interpret(p, inputs).outputs;
    for (size_t i = 0; i < results.size(); ++i) {
      values_[p.outputs[i]].bytes = std::move(results[i].bytes);
    }
  }

  const BoundProgram& program_;
  IdVector<TensorId, HostTensor> values_;
};

}  // namespace

std::vector<HostTensor> interpret_steps(const std::vector<Step>& steps, const BoundProgram& program,
                                        const std::vector<HostTensor>& inputs) {
  StepInterpreter run(program, inputs);
  for (const Step& step : steps) run.run(step);
  std::vector<HostTensor> results;
  for (TensorId id : program.outputs) results.push_back(run.result(id));
  return results;
}

}  // namespace tile::test
