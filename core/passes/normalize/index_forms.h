// Integer values of a body as affine forms of the piece's iterators, where nothing can wrap.
#pragma once

#include <optional>

#include "core/ir/bound.h"
#include "core/ir/scalar.h"

namespace tile {

// Inclusive.
struct FormRange {
  Rational lo, hi;
};

class IndexForms {
 public:
  // A piece with a box, which must outlive this.
  explicit IndexForms(const Piece& piece) : piece_(piece) {}

  // What the box and the conditions on this very form leave.
  FormRange range(const Affine& form) const;
  bool within(const Affine& form, int64_t lo, int64_t hi) const;  // lo <= form < hi everywhere

  // The form with integer coefficients that equals node `id` of `body` (the piece's own, a part of
  // it, or a region) at every point of the box; nullopt: none is found.
  std::optional<Affine> form(const Body& body, NodeId id) const;
  // The same of a node that may not be in the body yet; its operands are.
  std::optional<Affine> form(const Body& body, const Node& node) const;
  // What a comparison of such values gives at every point.
  std::optional<bool> decided(const Body& body, const Node& comparison) const;

 private:
  std::optional<Affine> search(const Body& body, const Node& node, int& budget) const;
  std::optional<Affine> operation(const Body& body, const Node& node, int& budget) const;
  std::optional<Affine> quotient(const Node& node, const Affine& a, const Affine& b) const;
  bool fits(const Affine& form, DType type) const;

  const Piece& piece_;
};

}  // namespace tile
