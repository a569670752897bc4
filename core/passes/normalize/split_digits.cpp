#include <algorithm>
#include <optional>

#include "core/passes/normalize/index_forms.h"
#include "core/passes/normalize/normalize.h"
#include "core/passes/normalize/substitution.h"

namespace tile {
namespace {

// A shorter low digit would be an inner loop that fills no vector.
constexpr int64_t kLeastBase = 8;

struct Digit {
  size_t iterator = 0;
  int64_t base = 0;
};

// A quotient or remainder of an iterator (times one) by a constant that divides its range.
std::optional<Digit> digit_of(const Piece& piece, const IndexForms& forms, const Body& body,
                              const Node& node) {
  bool divides = node.kind == NodeKind::operation && is_integer(node.type) &&
                 (node.op == Op::div || node.op == Op::mod);
  if (!divides || body[node.args[1]].kind != NodeKind::integer) return std::nullopt;
  int64_t base = body[node.args[1]].integer;
  std::optional<Affine> form = forms.form(body, node.args[0]);
  if (!form || base < kLeastBase) return std::nullopt;
  for (size_t u = 0; u < piece.iterators.size(); ++u) {
    bool alone = *form == iterator_affine(u);
    if (alone && piece.box[u] > base && piece.box[u] % base == 0) return Digit{u, base};
  }
  return std::nullopt;
}

// The iterator that neighbouring cells of the result (or pixels, where each has its components
// stored together) differ in; -1: none.
int innermost(const Piece& piece) {
  const std::vector<Index>& index = piece.stores[0].index;
  for (size_t d = index.size(); d-- > 0;) {
    if (index[d].affine.is_constant()) continue;
    for (size_t u = 0; u < piece.iterators.size(); ++u) {
      if (index[d].affine == iterator_affine(u)) return static_cast<int>(u);
    }
    return -1;
  }
  return -1;
}

// A remainder of the innermost iterator that only places reads repeats along a row: a vector reads
// what a few neighbours hold and stores its results side by side. As an index of its own it would
// tear them apart.
bool only_places(const Body& body, const Node& remainder) {
  if (remainder.op != Op::mod) return false;
  for (NodeId id : body.results) {
    if (&body[id] == &remainder) return false;
  }
  for (const Node& user : body.nodes) {
    for (NodeId arg : user.args) {
      const Node& used = body[arg];
      bool moved = used.kind == NodeKind::operation && used.op == Op::cast &&
                   &body[used.args[0]] == &remainder;
      if (&used == &remainder && user.kind != NodeKind::load && user.op != Op::cast) return false;
      if (moved && user.kind != NodeKind::load) return false;
      if (user.region && (&used == &remainder || moved)) return false;
    }
  }
  return true;
}

std::optional<Digit> find_digit(const Piece& piece, const IndexForms& forms, const Body& body) {
  for (const Node& node : body.nodes) {
    std::optional<Digit> digit = digit_of(piece, forms, body, node);
    bool repeats = digit && &body == &piece.body &&
                   static_cast<int>(digit->iterator) == innermost(piece) && only_places(body, node);
    if (digit && !repeats) return digit;
    if (node.region) digit = find_digit(piece, forms, *node.region);
    if (node.region && digit) return digit;
  }
  return std::nullopt;
}

// Iterator u becomes base * u + (the new iterator behind it).
Piece split(const Piece& piece, const Digit& digit) {
  lattice::Substitution s;
  s.iterators = piece.iterators.size() + 1;
  for (size_t i = 0; i < piece.iterators.size(); ++i) {
    Affine form = iterator_affine(i > digit.iterator ? i + 1 : i);
    if (i == digit.iterator) {
      form = form * Rational(digit.base) + iterator_affine(digit.iterator + 1);
    }
    s.old_in_new.push_back(std::move(form));
  }
  Piece result = substituted(piece, s);
  result.box = piece.box;
  result.box[digit.iterator] /= digit.base;
  result.box.insert(result.box.begin() + static_cast<std::ptrdiff_t>(digit.iterator) + 1,
                    digit.base);
  result.parallel_dims = piece.parallel_dims + (digit.iterator < piece.parallel_dims ? 1 : 0);
  return result;
}

}  // namespace

void split_digits(BoundProgram& program, const Target&) {
  constexpr int kMostDigits = 8;
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || !c->normalized) continue;
    for (Piece& piece : c->pieces) {
      for (int n = 0; n < kMostDigits; ++n) {
        IndexForms forms(piece);
        std::optional<Digit> digit = find_digit(piece, forms, piece.body);
        if (!digit) break;
        piece = split(piece, *digit);
      }
    }
  }
}

}  // namespace tile
