#include "core/language/lift/context.h"

#include <algorithm>
#include <unordered_set>

#include "core/language/lift/lower.h"
#include "core/language/lift/substitution.h"

namespace tile::lift {
namespace {

constexpr size_t kMaxStatements = 20'000;
constexpr int kMaxVariables = 2'000'000;

size_t leaf_count(const Type& type) {
  if (is_scalar(type)) return 1;
  size_t count = 0;
  for (const TypePtr& part : type.parts) count += leaf_count(*part);
  return count;
}

// The reductions and folds that a value is made of, each once.
std::vector<const Scalar*> loops_inside(const Scalar& s) {
  std::vector<const Scalar*> loops, left = {&s};
  std::unordered_set<const Scalar*> seen;
  while (!left.empty()) {
    const Scalar* next = left.back();
    left.pop_back();
    if (!seen.insert(next).second) continue;
    if (next->kind == ScalarKind::reduce || next->kind == ScalarKind::fold) loops.push_back(next);
    for (const ScalarPtr& arg : next->args) left.push_back(arg.get());
  }
  return loops;
}

}  // namespace

Context::Context(SourcePtr source) { program.source = std::move(source); }

void Context::add_size(std::string_view name) {
  ranges_.of[std::string(name)] = {Expr(1), std::nullopt};
}

Expr Context::fresh(const Expr& extent) {
  if (next_variable_ >= kMaxVariables) {
    fail(Stage::parse, "limit", {}, "the program applies too many patterns");
  }
  std::string name = "$" + std::to_string(next_variable_++);
  extents_.emplace(name, extent);
  ranges_.set(name, 0, extent - 1);
  return Expr::variable(name);
}

Expr Context::data_index(const ScalarPtr& s) {
  if (is_index(*s)) return expr_of(*s);
  std::string name = "$v" + std::to_string(next_variable_++);
  data_.emplace(name, s);
  return Expr::variable(name);
}

// A data index that is computed inside a loop names the loop's variable; around the loop that name
// means nothing, and `free`, which knows the data indices by their own names, cannot leave it out.
std::set<std::string> Context::loop_variables(const Scalar& s) const {
  std::set<std::string> names;
  bool data = false;
  for (const std::string& name : s.free) {
    auto found = data_.find(name);
    if (found == data_.end()) {
      names.insert(name);
    } else {
      data = true;
      names.merge(loop_variables(*found->second));
    }
  }
  if (!data) return names;
  for (const Scalar* loop : loops_inside(s)) names.erase(loop->variable);
  return names;
}

std::set<int> Context::open_loops(const Scalar& s) const {
  std::set<int> ids = s.open;
  bool data = false;
  for (const std::string& name : s.free) {
    auto found = data_.find(name);
    if (found == data_.end()) continue;
    data = true;
    ids.merge(open_loops(*found->second));
  }
  if (!data) return ids;
  for (const Scalar* loop : loops_inside(s)) ids.erase(loop->id);
  return ids;
}

bool Context::depends_on_open(const Scalar& s) const { return !open_loops(s).empty(); }

bool Context::proves(const Expr& condition) const {
  Expr e = tidy(condition);
  return e.is_constant() && e.value() != 0;
}

bool Context::in_range(const Expr& index, const Expr& length) const {
  return prove_less(-1, index, ranges_).value_or(false) &&
         prove_less(index, length, ranges_).value_or(false);
}

bool Context::at_least(const Expr& e, int64_t least) const {
  return prove_less(Expr(least - 1), e, ranges_).value_or(false);
}

void Context::require(SizeCheck check) {
  check.left = tidy(check.left);
  check.right = tidy(check.right);
  std::optional<bool> holds;
  switch (check.relation) {
    case SizeCheck::Relation::equal:
      holds = prove_equal(check.left, check.right, ranges_);
      break;
    case SizeCheck::Relation::multiple_of:
      holds = prove_equal(trunc_mod(check.left, check.right), 0, ranges_);
      break;
    case SizeCheck::Relation::at_least:
      holds = prove_less(check.right - 1, check.left, ranges_);
      break;
  }
  if (holds == true) return;
  if (holds == false) fail(Stage::parse, check.code, check.span, check.message);
  for (const SizeCheck& known : program.checks) {
    bool same = known.left == check.left && known.right == check.right &&
                known.relation == check.relation && known.code == check.code;
    if (same) return;
  }
  program.checks.push_back(std::move(check));
}

ScalarPtr Context::substituted(const ScalarPtr& s, const Substitution& by) {
  return Substituter(*this, by).scalar(s);
}

Value Context::substituted(const Value& value, const Substitution& by) {
  if (value.scalar) {
    Value out = value;
    out.scalar = substituted(value.scalar, by);
    return out;
  }
  Value out = value;
  for (Value& part : out.parts) part = substituted(part, by);
  if (value.array) {
    auto at = [this, value, by](const Expr& e) { return substituted(value.array->at(e), by); };
    out.array = std::make_shared<const ArrayValue>(
        ArrayValue{at, value.array->depth + 1, value.array->rows});
  }
  return out;
}

Value Context::substituted(const Value& value, const Expr& variable, const Expr& by) {
  if (variable == by) return value;
  Substitution one;
  one.indices.emplace(variable.name(), by);
  return substituted(value, one);
}

int64_t Context::work(const Value& value) {
  if (value.scalar) return value.scalar->work;
  int64_t sum = 0;
  for (const Value& part : value.parts) sum = std::max(sum, work(part));
  if (value.array) sum = work(value.array->at(fresh(value.length())));
  return sum;
}

bool Context::closed(const Value& value) {
  if (value.scalar) return !depends_on_open(*value.scalar);
  if (value.array) return closed(value.array->at(fresh(value.length())));
  for (const Value& part : value.parts) {
    if (!closed(part)) return false;
  }
  return true;
}

std::string Context::temporary_name() {
  for (;;) {
    std::string name = "T" + std::to_string(++temporaries_);
    if (!program.find(name) && !is_size(name)) return name;
  }
}

TensorId Context::assign(const ScalarPtr& s, const std::vector<Expr>& dims, const std::string& name,
                         Span span) {
  if (program.statements.size() >= kMaxStatements) {
    fail(Stage::parse, "limit", span,
         "the program needs more than " + std::to_string(kMaxStatements) + " statements");
  }
  std::vector<ResultDimension> plain;
  for (const Expr& dim : dims) plain.push_back(plain_dimension(*this, dim));
  return lower(*this, {s}, plain, name, span);
}

void Context::collect_leaves(const Value& value, std::vector<Expr>& dims, Span span,
                             std::vector<Leaf>& leaves) {
  if (value.scalar) {
    std::set<std::string> outer = loop_variables(*value.scalar);
    Leaf leaf;
    for (const Expr& dim : dims) outer.erase(dim.name());
    for (const std::string& variable : outer) leaf.outer.push_back(Expr::variable(variable));
    std::vector<Expr> all = leaf.outer;
    all.insert(all.end(), dims.begin(), dims.end());
    leaf.tensor = assign(value.scalar, all, temporary_name(), span);
    leaves.push_back(std::move(leaf));
    return;
  }
  for (const Value& part : value.parts) collect_leaves(part, dims, span, leaves);
  if (!value.array) return;
  dims.push_back(fresh(value.length()));
  collect_leaves(value.array->at(dims.back()), dims, span, leaves);
  dims.pop_back();
}

Value Context::read(const TypePtr& type, std::vector<Expr> index,
                    const std::shared_ptr<const std::vector<Leaf>>& leaves, size_t first) const {
  if (is_scalar(*type)) {
    const Leaf& leaf = (*leaves)[first];
    Scalar load;
    load.kind = ScalarKind::load;
    load.type = dtype_of(*type);
    load.tensor = leaf.tensor;
    load.exprs = leaf.outer;
    load.exprs.insert(load.exprs.end(), index.begin(), index.end());
    if (leaf.component >= 0) load.exprs.emplace_back(leaf.component);
    return scalar_value(make_scalar(std::move(load)));
  }
  if (type->kind == TypeKind::tuple) {
    std::vector<Value> parts;
    for (const TypePtr& part : type->parts) {
      parts.push_back(read(part, index, leaves, first));
      first += leaf_count(*part);
    }
    return tuple_value(std::move(parts));
  }
  return array_value(
      type,
      [this, type, index, leaves, first](const Expr& e) {
        std::vector<Expr> all = index;
        all.push_back(e);
        return read(type->parts[0], std::move(all), leaves, first);
      },
      1);
}

TensorId Context::declare(DType type, const std::vector<Expr>& dims, size_t components, Span span) {
  Tensor tensor;
  tensor.name = temporary_name();
  tensor.span = span;
  tensor.type = type;
  TensorId id = program.tensors.add(std::move(tensor));
  shapes.resize(id.index());
  std::vector<Expr> shape;
  for (const Expr& dim : dims) shape.push_back(tidy(extent(dim.name())));
  if (components != 0) shape.emplace_back(static_cast<int64_t>(components));
  shapes.push_back(std::move(shape));
  return id;
}

Value Context::stored(const TypePtr& type, const std::vector<TensorId>& tensors,
                      const std::vector<Expr>& outer) const {
  std::vector<Leaf> leaves;
  size_t count = leaf_count(*type);
  bool components = tensors.size() == 1 && count > 1;
  for (size_t i = 0; i < count; ++i) {
    leaves.push_back({tensors[components ? 0 : i], outer, components ? static_cast<int>(i) : -1});
  }
  return read(type, {}, std::make_shared<const std::vector<Leaf>>(std::move(leaves)), 0);
}

TensorId Context::repeat(Repeat what, Span span) {
  std::vector<Expr> shape = shapes[what.operands[0]];
  Tensor tensor;
  tensor.name = temporary_name();
  tensor.span = span;
  TensorId id = program.tensors.add(std::move(tensor));
  shapes.resize(id.index());
  shapes.push_back(std::move(shape));
  Statement statement;
  statement.result = id;
  statement.span = span;
  statement.what = std::move(what);
  program.statements.push_back(std::move(statement));
  return id;
}

void Context::forget(size_t first, TensorId tensor) {
  ++forgotten;
  program.statements.resize(first);
  while (program.tensors.size() > tensor.index()) program.tensors.pop_back();
  shapes.resize(std::min(shapes.size(), tensor.index()));
}

Value Context::materialised(const Value& value, Span span) {
  if (!closed(value)) return value;
  std::vector<Leaf> leaves;
  std::vector<Expr> dims;
  collect_leaves(value, dims, span, leaves);
  return read(value.type, {}, std::make_shared<const std::vector<Leaf>>(std::move(leaves)), 0);
}

}  // namespace tile::lift
