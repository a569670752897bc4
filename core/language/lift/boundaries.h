// Boundary rules as index expressions (core/language/lift/REFERENCE.md 2.3). An access whose whole
// index is such an expression carries the rule instead, which is how the loops get rid of it in the
// interior.
#pragma once

#include <optional>
#include <string_view>

#include "core/language/lift/value.h"

namespace tile::lift {

struct PadBoundary {
  Boundary kind = Boundary::clamp;
  ScalarPtr outside;  // constant
};

// Clamp, Mirror, Wrap, Constant; also with a small first letter.
std::optional<Boundary> find_boundary(std::string_view name);

Expr clamp_index(const Expr& raw, const Expr& n);
Expr wrap_index(const Expr& raw, const Expr& n);
Expr mirror_index(const Expr& raw, const Expr& n);
// The element of [0, n) read for `raw`; a constant's is any that exists, under a guard.
Expr boundary_index(Boundary kind, const Expr& raw, const Expr& n);

// The rule that an expression made by boundary_index follows, and what it is applied to.
struct BoundedIndex {
  Boundary kind;
  Expr raw;
};
std::optional<BoundedIndex> find_bounded_index(const Expr& e, const Expr& n);
bool is_clamped(const Expr& e);  // min(max(raw, 0), n - 1)
// mod(raw + 0, n): the sum tells a wrapped index from the remainders that Join makes.
bool is_wrapped(const Expr& e);

}  // namespace tile::lift
