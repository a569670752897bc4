#include "core/fusion/verify_steps.h"

#include <algorithm>
#include <cmath>

#include "core/fusion/step_order.h"
#include "core/ir/analysis/uses.h"
#include "core/passes/normalize/domains.h"

namespace tile {
namespace {

constexpr double kRounding = 1e-9;  // of products of extents as doubles

std::string name_of(const Step& step, const BoundProgram& program) {
  if (const Kernel* k = std::get_if<Kernel>(&step)) return k->name;
  return program.tensors[written_by(statement_of(step)).at(0)].name;
}

// The tensors whose elements are known as steps run one after the other.
class Known {
 public:
  explicit Known(const BoundProgram& program)
      : program_(program), known_(program.tensors.size(), false) {
    for (TensorId id : program.inputs) known_[id] = true;
    for (TensorId id : known_.ids()) {
      if (program.tensors[id].constant) known_[id] = true;
    }
  }

  void read(TensorId id, const std::string& reader) const {
    TensorId from = own(id) ? id : storage_of(program_, id);
    bool known = !own(from) && known_[from];
    if (!known) fail(reader + " reads " + name(from) + ", which no step before it makes");
  }
  // What a kernel alone has is nobody else's.
  void make(TensorId id, const std::string& maker) {
    if (own(id)) return;
    if (known_[id]) fail(maker + " makes " + name(id) + " again");
    known_[id] = true;
  }
  void outputs() const {
    for (TensorId id : program_.outputs) read(id, "the program's result");
  }

 private:
  bool own(TensorId id) const { return !program_.tensors.contains(id); }
  std::string name(TensorId id) const {
    return own(id) ? "a kernel's own tensor" : program_.tensors[id].name;
  }
  [[noreturn]] static void fail(const std::string& what) { throw InternalError("steps: " + what); }

  const BoundProgram& program_;
  IdVector<TensorId, bool> known_;
};

bool same_list(std::vector<TensorId> a, std::vector<TensorId> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

// The kernel's lists, which its arguments are, say what its stages read and write.
void verify_lists(const Kernel& kernel, const StepUse& use, const BoundProgram& program) {
  std::vector<TensorId> reads;
  for (TensorId id : kernel.reads) {
    TensorId from = storage_of(program, id);
    if (!contains(reads, from)) reads.push_back(from);
  }
  std::vector<TensorId> global;
  for (const KernelStage& s : kernel.stages) {
    if (s.residence != Residence::global) continue;
    for (TensorId id : s.contraction.outputs) {
      if (!contains(global, id)) global.push_back(id);
    }
  }
  if (!same_list(reads, use.reads) || !same_list(global, kernel.writes)) {
    throw InternalError("steps: what " + kernel.name + " reads or writes is not in its lists");
  }
}

// The statement of each tensor; null: another kind of statement, or none.
using StatementOf = IdVector<TensorId, const Contraction*>;
StatementOf statements_of(const BoundProgram& program) {
  StatementOf list(program.tensors.size(), nullptr);
  for (const BoundStatement& s : program.statements) {
    const Contraction* c = std::get_if<Contraction>(&s);
    if (c == nullptr) continue;
    for (TensorId id : c->outputs) list[id] = c;
  }
  return list;
}

// Behind a running maximum a streamed kernel sums in a tensor of its own, from which the program's
// is made cell by cell.
const Contraction& summing(const Kernel& kernel, const KernelStage& stage, size_t tensors) {
  if (!stage.attach.valid()) return stage.contraction;
  for (const Access& load : stage.contraction.pieces[0].loads) {
    if (load.tensor.index() < tensors) continue;
    for (const KernelStage& s : kernel.stages) {
      bool rescaled = !s.attach.valid() && s.rescale.valid();
      if (rescaled && contains(s.contraction.outputs, load.tensor)) return s.contraction;
    }
  }
  return stage.contraction;
}

// A stage has the points of its statement; cells that nobody reads may be missing where it is not
// stored.
void verify_domains(const Kernel& kernel, const StatementOf& statements) {
  for (const KernelStage& stage : kernel.stages) {
    verify_accesses(stage.contraction, kernel.tensors);
    DomainSize now = domain_size(summing(kernel, stage, statements.size()));
    for (TensorId out : stage.contraction.outputs) {
      bool own = !statements.contains(out);
      const Contraction* c = own ? nullptr : statements[out];
      if (own) continue;
      DomainSize before = c == nullptr ? DomainSize{} : domain_size(*c);
      double slack = kRounding * before.points;
      bool fewer = stage.residence != Residence::global;
      bool points =
          now.points <= before.points + slack && (fewer || now.points >= before.points - slack);
      if (!points || now.conditions != before.conditions) {
        throw InternalError("steps: " + kernel.name + " makes " + kernel.tensors[out].name +
                            " from other points than the program");
      }
    }
  }
}

}  // namespace

void verify_order(const std::vector<Step>& steps, const BoundProgram& program) {
  Known known(program);
  for (const Step& step : steps) {
    StepUse use = use_of(step, program);
    for (TensorId id : use.reads) known.read(id, name_of(step, program));
    for (TensorId id : use.makes) known.make(id, name_of(step, program));
  }
  known.outputs();
}

void verify(const std::vector<Step>& steps, const BoundProgram& program) {
  Known known(program);
  const StatementOf statements = statements_of(program);
  for (const Step& step : steps) {
    StepUse use = use_of(step, program);
    for (TensorId id : use.reads) known.read(id, name_of(step, program));
    const Kernel* kernel = std::get_if<Kernel>(&step);
    if (kernel != nullptr) {
      verify(*kernel);
      verify_lists(*kernel, use, program);
      verify_domains(*kernel, statements);
    }
    for (TensorId id : kernel != nullptr ? kernel->writes : use.makes) {
      known.make(id, name_of(step, program));
    }
  }
  known.outputs();
}

}  // namespace tile
