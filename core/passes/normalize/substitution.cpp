#include "core/passes/normalize/substitution.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"

namespace tile {
namespace {

// The old iterator that new iterator j stands for alone, if there is one.
const std::string* kept_name(const Piece& piece, const lattice::Substitution& s, size_t j) {
  for (size_t i = 0; i < s.old_in_new.size(); ++i) {
    const Affine& form = s.old_in_new[i];
    if (form.coefficient(j) != Rational(1)) continue;
    Affine rest = form - iterator_affine(j);
    if (rest.is_constant()) return &piece.iterators[i];
  }
  return nullptr;
}

std::vector<std::string> new_names(const Piece& piece, const lattice::Substitution& s) {
  std::vector<std::string> names(s.iterators);
  std::vector<std::string> taken = piece.iterators;
  for (size_t j = 0; j < s.iterators; ++j) {
    if (const std::string* name = kept_name(piece, s, j)) names[j] = *name;
  }
  for (size_t j = 0; j < s.iterators; ++j) {
    for (int n = static_cast<int>(j); names[j].empty(); ++n) {
      std::string candidate = "v" + std::to_string(n);
      if (std::find(taken.begin(), taken.end(), candidate) == taken.end()) names[j] = candidate;
    }
    taken.push_back(names[j]);
  }
  return names;
}

// Whether every iterator stays what it is.
bool is_identity(const lattice::Substitution& s) {
  if (s.iterators != s.old_in_new.size()) return false;
  for (size_t i = 0; i < s.old_in_new.size(); ++i) {
    const Affine& form = s.old_in_new[i];
    if (form.coefficient(i) != Rational(1) || !form.constant.is_zero()) return false;
    for (size_t j = 0; j < form.coefficients.size(); ++j) {
      if (j != i && !form.coefficients[j].is_zero()) return false;
    }
  }
  return true;
}

void rewrite(Access& access, std::span<const Affine> replacement) {
  for (Index& index : access.index) {
    if (index.value < 0) index.affine = substitute(index.affine, replacement);
  }
}

}  // namespace

NodeId affine_value(Body& body, const Affine& form, Span span) {
  NodeId sum;
  auto plus = [&](NodeId term) {
    sum = sum.valid() ? body.operation(Op::add, {sum, term}, DType::i64, span) : term;
  };
  for (size_t j = 0; j < form.coefficients.size(); ++j) {
    if (form.coefficients[j].is_zero()) continue;
    internal_check(form.coefficients[j].is_integer(), "substitution: a fractional index value");
    NodeId term = body.index(j, DType::i64, span);
    if (form.coefficients[j] != Rational(1)) {
      NodeId factor = body.integer(form.coefficients[j].num(), DType::i64, span);
      term = body.operation(Op::mul, {term, factor}, DType::i64, span);
    }
    plus(term);
  }
  if (!sum.valid() || !form.constant.is_zero())
    plus(body.integer(form.constant.num(), DType::i64, span));
  return sum;
}

Piece substituted(Piece piece, const lattice::Substitution& s) {
  piece.box.clear();
  if (is_identity(s)) return piece;
  piece.iterators = IdVector<IteratorId, std::string>(new_names(piece, s));
  for (Constraint& c : piece.constraints) c.form = substitute(c.form, s.old_in_new);
  for (Access& a : piece.stores) rewrite(a, s.old_in_new);
  for (Access& a : piece.loads) rewrite(a, s.old_in_new);
  piece.body = rewritten(piece.body, [&](Body& body, const Node& node) -> NodeId {
    if (node.kind != NodeKind::index) return NodeId();
    const Affine& form = s.old_in_new[node.slot];
    return body.cast(affine_value(body, form, node.span), node.type, node.span);
  });
  return piece;
}

int position_of(std::vector<Access>& loads, Access access) {
  auto same_index = [](const Index& a, const Index& b) {
    return a.affine == b.affine && a.value == b.value && a.boundary == b.boundary;
  };
  auto same = [&](const Access& other) {
    return other.tensor == access.tensor &&
           std::equal(other.index.begin(), other.index.end(), access.index.begin(),
                      access.index.end(), same_index);
  };
  auto found = std::find_if(loads.begin(), loads.end(), same);
  if (found != loads.end()) return static_cast<int>(found - loads.begin());
  loads.push_back(std::move(access));
  return static_cast<int>(loads.size()) - 1;
}

void drop_unused_loads(Piece& piece) { drop_unread(piece.body, piece.loads); }

lattice::System system_of(const Piece& piece) {
  lattice::System system;
  system.iterators = piece.iterators.size();
  for (const Constraint& c : piece.constraints) {
    system.conditions.push_back({c.form, c.lo, c.hi, c.integral});
  }
  for (size_t i = 0; i < piece.box.size(); ++i) {
    system.conditions.push_back({iterator_affine(i), 0, piece.box[i], true});
  }
  return system;
}

std::vector<Constraint> constraints_of(const lattice::System& system) {
  std::vector<Constraint> result;
  for (const lattice::Condition& c : system.conditions) {
    result.push_back({c.form, c.lo, c.hi, c.integral});
  }
  return result;
}

}  // namespace tile
