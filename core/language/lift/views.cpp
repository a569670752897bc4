#include "core/language/lift/views.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/language/lift/boundaries.h"
#include "core/simplify/simplify.h"

namespace tile {
namespace {

// Sums and products without blanks, as the deck writes indices.
std::string compact(const Expr& e) {
  std::string text = to_string(e);
  for (const char* op : {" + ", " - ", " / ", " % "}) {
    for (size_t at = 0; (at = text.find(op, at)) != std::string::npos;)
      text.replace(at, 3, 1, op[1]);
  }
  return text;
}

bool is_atom(const Expr& e) { return e.kind() == ExprKind::variable || e.is_constant(); }

class ViewPrinter {
 public:
  explicit ViewPrinter(const Program& program) : program_(program), sizes_(program.tensors.size()) {
    for (TensorId id : program.inputs) {
      const Tensor& tensor = program.tensors[id];
      if (tensor.ranked) sizes_[id] = tensor.dims;
    }
    for (const SizeCheck& check : program.checks) {
      bool positive = check.relation == SizeCheck::Relation::at_least &&
                      check.left.kind() == ExprKind::variable && check.right.is_constant();
      if (positive) base_.of[check.left.name()] = {check.right, std::nullopt};
    }
  }

  std::string run() {
    for (const Statement& statement : program_.statements) {
      if (const auto* repeat = std::get_if<Repeat>(&statement.what)) print_step(statement, *repeat);
      const auto* contraction = std::get_if<SymbolicContraction>(&statement.what);
      if (contraction == nullptr) continue;
      set_ranges(*contraction);
      for (size_t slot = 0; slot < contraction->accesses.size(); ++slot) {
        out_ += "tap " + std::to_string(taps_++) + ": " + access(*contraction, slot) + "\n";
      }
      sizes_[statement.result] = contraction->out_size;
      if (contraction->components > 0) {
        sizes_[statement.result]->push_back(contraction->components);
      }
    }
    return std::move(out_);
  }

 private:
  // The accesses of a step, once, under the names of its own tensors.
  void print_step(const Statement& statement, const Repeat& repeat) {
    ViewPrinter step(*repeat.step);
    step.base_ = base_;
    step.taps_ = taps_;
    for (size_t i = 0; i < repeat.operands.size(); ++i) {
      step.sizes_[repeat.step->inputs[i]] = sizes_[repeat.operands[i]];
    }
    out_ += step.run();
    taps_ = step.taps_;
    sizes_[statement.result] = sizes_[repeat.operands[0]];
  }

  void set_ranges(const SymbolicContraction& contraction) {
    ranges_ = base_;
    auto bound = [&](const Expr& form, const Expr& size) {
      if (form.kind() == ExprKind::variable) ranges_.set(form.name(), 0, size - 1);
    };
    for (size_t d = 0; d < contraction.out_index.size() && d < contraction.out_size.size(); ++d) {
      bound(contraction.out_index[d], contraction.out_size[d]);
    }
    for (const SymbolicConstraint& constraint : contraction.constraints) {
      bound(constraint.form, constraint.bound);
    }
  }

  std::string name_of(TensorId id) const {
    const std::string& name = program_.tensors[id].name;
    return name == "input" ? "IN" : name;
  }

  std::string access(const SymbolicContraction& contraction, size_t slot) const {
    const SymbolicAccess& a = contraction.accesses[slot];
    const std::optional<std::vector<Expr>>& sizes = sizes_[a.tensor];
    bool flat = sizes && sizes->size() == a.index.size();
    std::string text;
    Expr stride = 1;
    for (size_t d = a.index.size(); d-- > 0;) {
      bool data = d < a.values.size() && a.values[d] >= 0;
      Boundary boundary = d < a.boundary.size() ? a.boundary[d] : Boundary::in_range;
      std::string index;
      if (data) {
        index = "data" + std::to_string(a.values[d]);
      } else if (flat) {
        index = bounded(boundary, a.index[d], (*sizes)[d]);
      } else {
        index = compact(simplify(a.index[d], ranges_));
      }
      if (!flat) {
        text = index + (text.empty() ? "" : ", ") + text;
        continue;
      }
      if (index != "0") text += (text.empty() ? "" : " + ") + scaled(stride, index, a.index.size());
      stride = simplify(stride * (*sizes)[d], ranges_);
    }
    return name_of(a.tensor) + "[" + (text.empty() && flat ? "0" : text) + "]";
  }

  static std::string scaled(const Expr& stride, const std::string& index, size_t rank) {
    bool atom =
        index.find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == std::string::npos;
    bool choice = index.find('?') != std::string::npos;
    if (stride.is_constant(1)) return choice && rank > 1 ? "(" + index + ")" : index;
    bool product = is_atom(stride) || stride.kind() == ExprKind::mul;
    std::string factor = product ? compact(stride) : "(" + compact(stride) + ")";
    return factor + "*" + (atom ? index : "(" + index + ")");
  }

  std::string bounded(Boundary boundary, const Expr& raw_index, const Expr& n) const {
    Expr raw = simplify(raw_index, ranges_);
    bool above = prove_less(-1, raw, ranges_).value_or(false);
    bool below = prove_less(raw, n, ranges_).value_or(false);
    std::string text = compact(raw);
    if (boundary == Boundary::in_range || (above && below)) return text;
    std::string low = "(" + text + " >= 0)", high = "(" + text + " < " + compact(n) + ")";
    if (boundary == Boundary::wrap) {
      return "((" + text + ") % " + compact(n) + "+" + compact(n) + ") % " + compact(n);
    }
    if (boundary == Boundary::mirror) {
      return compact(simplify(lift::mirror_index(raw, n), ranges_));
    }
    bool constant = boundary == Boundary::constant;
    std::string first = constant ? "none" : "0";
    std::string last = constant ? "none" : compact(simplify(n - 1, ranges_));
    if (above) return high + " ? " + text + " : " + last;
    if (below) return low + " ? " + text + " : " + first;
    return low + " ? (" + high + " ? " + text + " : " + last + ") : " + first;
  }

  const Program& program_;
  IdVector<TensorId, std::optional<std::vector<Expr>>> sizes_;
  Ranges base_, ranges_;
  std::string out_;
  int taps_ = 0;
};

}  // namespace

std::string print_views(const Program& program) { return ViewPrinter(program).run(); }

}  // namespace tile
