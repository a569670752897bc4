#include "backends/cpu/values/indices.h"

#include <algorithm>

#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

// What a remembered value is; the first number of its key.
enum Tag : uint64_t { kAtom = 1000, kPrefix, kProduct, kVector };

// PointerArray wrap as the machine's do: a form may pass outside the range that its sum stays in.
int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

bool divisible(const Form& f, int64_t divisor) {
  return std::all_of(f.terms.begin(), f.terms.end(),
                     [&](const auto& term) { return term.second % divisor == 0; });
}

}  // namespace

void append(Key& key, const Form& f) {
  key.push_back(f.terms.size());
  for (auto [atom, factor] : f.terms) {
    key.push_back(atom.index());
    key.push_back(static_cast<uint64_t>(factor));
  }
  key.push_back(static_cast<uint64_t>(f.constant));
}

Form operator+(const Form& a, const Form& b) {
  Form sum;
  sum.constant = wrapping_add(a.constant, b.constant);
  auto x = a.terms.begin(), y = b.terms.begin();
  while (x != a.terms.end() || y != b.terms.end()) {
    if (y == b.terms.end() || (x != a.terms.end() && x->first < y->first)) {
      sum.terms.push_back(*x++);
    } else if (x == a.terms.end() || y->first < x->first) {
      sum.terms.push_back(*y++);
    } else {
      int64_t factor = wrapping_add(x->second, y->second);
      if (factor != 0) sum.terms.emplace_back(x->first, factor);
      ++x, ++y;
    }
  }
  return sum;
}

Form operator*(const Form& a, int64_t factor) {
  Form scaled;
  if (factor == 0) return scaled;
  scaled.constant = wrapping_mul(a.constant, factor);
  for (auto [atom, f] : a.terms) scaled.terms.emplace_back(atom, wrapping_mul(f, factor));
  return scaled;
}

Form Indices::variable(llvm::Value* value, bool positive) {
  Atom a;
  a.positive = positive;
  a.value = value;
  a.scope = scopes_.current();
  a.lanes = value->getType()->isVectorTy();
  return {{{atoms_.add(std::move(a)), 1}}, 0};
}

Form Indices::lane(unsigned width) {
  auto [it, added] = lanes_.try_emplace(width);
  if (added) {
    Atom a;
    a.lanes = true;
    a.lane_width = width;
    it->second = atoms_.add(std::move(a));
  }
  return {{{it->second, 1}}, 0};
}

Form Indices::form(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::constant:
      return {{}, e.value()};
    case ExprKind::variable: {
      auto it = bindings_.find(e.name());
      internal_check(it != bindings_.end(), "cpu: a variable outside its loop");
      return it->second;
    }
    default:
      break;
  }
  std::vector<Form> args;
  for (const Expr& arg : e.args()) args.push_back(form(arg));
  switch (e.kind()) {
    case ExprKind::add: {
      Form sum;
      for (const Form& f : args) sum = sum + f;
      return sum;
    }
    case ExprKind::sub:
      return args[0] - args[1];
    case ExprKind::neg:
      return args[0] * -1;
    case ExprKind::mul:
      return product(args);
    case ExprKind::exact_div:
    case ExprKind::floor_div:
    case ExprKind::floor_mod:
      return quotient(e.kind(), args);
    default:
      return compound(e.kind(), std::move(args));
  }
}

Form Indices::product(const std::vector<Form>& factors) {
  Form constant{{}, 1};
  std::vector<Form> others;
  for (const Form& f : factors) {
    if (f.is_constant()) {
      constant = constant * f.constant;
    } else {
      others.push_back(f);
    }
  }
  if (others.empty()) return constant;
  Form rest = others.size() == 1 ? others[0] : compound(ExprKind::mul, std::move(others));
  return rest * constant.constant;
}

// A division whose terms are all multiples of the divisor stays linear.
Form Indices::quotient(ExprKind kind, const std::vector<Form>& args) {
  int64_t d = args[1].constant;
  if (!args[1].is_constant() || d <= 0 || !divisible(args[0], d)) return compound(kind, args);
  if (kind == ExprKind::floor_mod) return {{}, floor_mod(args[0].constant, d)};
  Form result;
  result.constant = floor_div(args[0].constant, d);
  for (auto [id, factor] : args[0].terms) result.terms.emplace_back(id, factor / d);
  return result;
}

Form Indices::compound(ExprKind kind, std::vector<Form> args) {
  if (std::all_of(args.begin(), args.end(), [](const Form& f) { return f.is_constant(); })) {
    std::vector<Expr> constants;
    for (const Form& f : args) constants.emplace_back(f.constant);
    auto folded = evaluate(Expr::make(kind, std::move(constants)),
                           [](std::string_view) { return std::nullopt; });
    return {{}, folded.value_or(0)};
  }
  Key key{static_cast<uint64_t>(kind)};
  for (const Form& f : args) append(key, f);
  auto [it, added] = compounds_.try_emplace(key);
  if (added) {
    Atom a;
    a.kind = kind;
    for (const Form& f : args) {
      a.scope = std::max(a.scope, scope_of(f));
      a.lanes = a.lanes || uses_lanes(f);
    }
    a.args = std::move(args);
    it->second = atoms_.add(std::move(a));
  }
  return {{{it->second, 1}}, 0};
}

bool Indices::uses_lanes(const Form& f) const {
  return std::any_of(f.terms.begin(), f.terms.end(),
                     [&](const auto& term) { return atom(term.first).lanes; });
}

size_t Indices::scope_of(const Form& f) const {
  size_t scope = 0;
  for (auto [id, factor] : f.terms) scope = std::max(scope, atom(id).scope);
  return scope;
}

std::optional<Indices::Strided> Indices::strided(const Form& f) const {
  Strided result;
  result.uniform.constant = f.constant;
  for (auto [id, factor] : f.terms) {
    if (!atom(id).lanes) {
      result.uniform.terms.emplace_back(id, factor);
    } else if (atom(id).lane_width != 0) {
      result.stride = factor;
    } else {
      return std::nullopt;
    }
  }
  return result;
}

// The value of a form of nothing but the lane number.
std::optional<int64_t> Indices::at_lane(const Form& f, int64_t lane) const {
  int64_t sum = f.constant;
  for (auto [id, factor] : f.terms) {
    const Atom& a = atom(id);
    std::optional<int64_t> value = lane;
    if (a.lane_width == 0) {
      std::vector<Expr> args;
      for (const Form& arg : a.args) {
        std::optional<int64_t> known = at_lane(arg, lane);
        if (!known) return std::nullopt;
        args.emplace_back(*known);
      }
      if (args.empty()) return std::nullopt;
      value = evaluate(Expr::make(a.kind, std::move(args)),
                       [](std::string_view) { return std::nullopt; });
      if (!value) return std::nullopt;
    }
    sum = wrapping_add(sum, wrapping_mul(*value, factor));
  }
  return sum;
}

std::optional<Indices::Pattern> Indices::pattern(const Form& f, unsigned width) const {
  Pattern result;
  Form lanes;
  result.uniform.constant = f.constant;
  for (const auto& term : f.terms) {
    (atom(term.first).lanes ? lanes : result.uniform).terms.push_back(term);
  }
  for (unsigned l = 0; l < width; ++l) {
    std::optional<int64_t> offset = at_lane(lanes, l);
    if (!offset) return std::nullopt;
    result.offsets.push_back(*offset);
  }
  return result;
}

llvm::Value* Indices::pointer(llvm::Value* base, const Form& f, int64_t scale) {
  Form variable = f;
  variable.constant = 0;
  llvm::Value* p = prefix(base, variable, scale);
  int64_t offset = wrapping_mul(f.constant, scale);
  return offset == 0
             ? p
             : ir_.CreateGEP(ir_.getInt8Ty(), p, ir_.getInt64(static_cast<uint64_t>(offset)));
}

// The sum of the terms, each added in the scope that it belongs to: outer loops' terms first.
llvm::Value* Indices::prefix(llvm::Value* base, const Form& f, int64_t scale) {
  if (f.terms.empty()) return base;
  Key key{kPrefix, base == nullptr ? 0 : key_of(base), static_cast<uint64_t>(scale)};
  append(key, f);
  size_t scope = scope_of(f);
  return scopes_.once_at(scope, key, [&] {
    Form outer, inner;
    for (const auto& term : f.terms) {
      (atom(term.first).scope < scope ? outer : inner).terms.push_back(term);
    }
    llvm::Value* sum = prefix(base, outer, scale);
    for (const auto& term : inner.terms) sum = extended(sum, base, term, scale);
    return sum;
  });
}

llvm::Value* Indices::extended(llvm::Value* sum, llvm::Value* base,
                               const std::pair<AtomId, int64_t>& term, int64_t scale) {
  int64_t factor = wrapping_mul(term.second, scale);
  llvm::Value* value = atom_value(term.first, 1);
  if (factor != 1) {
    Key key{kProduct, term.first.index(), static_cast<uint64_t>(factor)};
    value = scopes_.once_at(atom(term.first).scope, key, [&] {
      return ir_.CreateMul(value, ir_.getInt64(static_cast<uint64_t>(factor)));
    });
  }
  if (base != nullptr) return ir_.CreateGEP(ir_.getInt8Ty(), sum, value);
  return sum == nullptr ? value : ir_.CreateAdd(sum, value);
}

bool Indices::positive_divisor(const Atom& quotient) const {
  if (quotient.args.size() != 2) return false;
  const Form& by = quotient.args[1];
  return by.terms.size() == 1 && by.constant == 0 && by.terms[0].second > 0 &&
         atom(by.terms[0].first).positive;
}

llvm::Value* Indices::atom_value(AtomId id, unsigned width) {
  const Atom a = atom(id);  // a copy: emission may add atoms
  if (a.value != nullptr) return a.value;
  if (a.lane_width != 0) {
    std::vector<llvm::Constant*> numbers;
    for (unsigned i = 0; i < a.lane_width; ++i) numbers.push_back(ir_.getInt64(i));
    return llvm::ConstantVector::get(numbers);
  }
  Key key{kAtom, id.index()};
  return scopes_.once_at(a.lanes ? scopes_.current() : a.scope, key, [&] {
    std::vector<llvm::Value*> args;
    for (const Form& f : a.args) {
      llvm::Value* v = value(f, width);
      bool splat = a.lanes && !v->getType()->isVectorTy();
      args.push_back(splat ? ir_.CreateVectorSplat(width, v) : v);
    }
    return emit_index_operation(ir_, a.kind, args, positive_divisor(a));
  });
}

llvm::Value* Indices::value(const Form& f, unsigned width) {
  if (uses_lanes(f)) return lane_sum(f, width);
  Form variable = f;
  variable.constant = 0;
  llvm::Value* sum = prefix(nullptr, variable, 1);
  llvm::Value* constant = ir_.getInt64(static_cast<uint64_t>(f.constant));
  if (sum == nullptr) return constant;
  return f.constant == 0 ? sum : ir_.CreateAdd(sum, constant);
}

llvm::Value* Indices::lane_sum(const Form& f, unsigned width) {
  Key key{kVector, width};
  append(key, f);
  return scopes_.once(key, [&] {
    Form uniform, lanes;
    uniform.constant = f.constant;
    for (const auto& term : f.terms) {
      (atom(term.first).lanes ? lanes : uniform).terms.push_back(term);
    }
    llvm::Value* sum = ir_.CreateVectorSplat(width, value(uniform, width));
    for (auto [id, factor] : lanes.terms) {
      llvm::Value* v = atom_value(id, width);
      llvm::Value* by = ir_.CreateVectorSplat(width, ir_.getInt64(static_cast<uint64_t>(factor)));
      sum = ir_.CreateAdd(sum, factor == 1 ? v : ir_.CreateMul(v, by));
    }
    return sum;
  });
}

}  // namespace tile::cpu
