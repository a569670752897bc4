#include "core/interpret/evaluator.h"

#include <algorithm>
#include <limits>

#include "core/support/checked.h"

namespace tile {
namespace {

// The dimension's position that a boundary rule gives for any integer; nullopt: none (in_range or
// constant, outside).
std::optional<int64_t> bounded(int64_t i, int64_t size, Boundary boundary) {
  if (i >= 0 && i < size) return i;
  if (size == 0) return std::nullopt;
  switch (boundary) {
    case Boundary::clamp:
      return std::clamp<int64_t>(i, 0, size - 1);
    case Boundary::wrap:
      return floor_mod(i, size);
    case Boundary::mirror: {
      int64_t d = floor_mod(i, checked_mul(2, size));
      return d >= size ? 2 * size - 1 - d : d;
    }
    default:
      return std::nullopt;
  }
}

int64_t as_index(const Scalar& value) {
  bool huge = value.type == DType::u64 && value.i < 0;
  return huge ? std::numeric_limits<int64_t>::max() : value.i;
}

}  // namespace

PieceEvaluator::PieceEvaluator(const BoundProgram& program, const Elements& elements,
                               const Piece& piece, std::function<void()> work)
    : program_(program), elements_(elements), piece_(piece), work_(std::move(work)) {
  for (const Access& a : piece.loads) loads_.push_back(address_of(a, shape_of(a)));
  for (const Access& a : piece.stores) stores_.push_back(address_of(a, shape_of(a)));
  cells_.resize(piece.stores.size());
}

std::optional<PieceEvaluator::Address> PieceEvaluator::address_of(const Access& access,
                                                                  const Shape& shape) {
  Affine flat;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Index& index = access.index[d];
    if (index.value >= 0 || index.boundary != Boundary::in_range) return std::nullopt;
    flat = flat * Rational(shape[d]) + index.affine;
  }
  Address address;
  address.divisor = flat.constant.den();
  for (const Rational& c : flat.coefficients) address.divisor = lcm(address.divisor, c.den());
  for (const Rational& c : flat.coefficients) {
    address.coefficients.push_back(checked_mul(c.num(), address.divisor / c.den()));
  }
  address.constant = checked_mul(flat.constant.num(), address.divisor / flat.constant.den());
  return address;
}

PieceEvaluator::Place PieceEvaluator::locate(const Access& access,
                                             const std::optional<Address>& address,
                                             std::span<const Scalar> values,
                                             int64_t& position) const {
  if (address) {
    __int128 sum = address->constant;
    for (size_t i = 0; i < address->coefficients.size(); ++i) {
      sum += static_cast<__int128>(address->coefficients[i]) * x_[i];
    }
    position = static_cast<int64_t>(sum / address->divisor);
    return Place::inside;
  }
  const Shape& shape = shape_of(access);
  position = 0;
  Place place = Place::inside;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Index& index = access.index[d];
    int64_t i = index.value >= 0 ? as_index(values[static_cast<size_t>(index.value)])
                                 : index.affine.evaluate(x_).floor();
    std::optional<int64_t> inside = bounded(i, shape[d], index.boundary);
    if (!inside && index.boundary == Boundary::in_range) return Place::invalid;
    if (!inside) place = Place::outside;
    position = position * shape[d] + inside.value_or(0);
  }
  return place;
}

Scalar PieceEvaluator::value(const Node& node) {
  internal_check(node.kind == NodeKind::index, "interpret: a symbolic size in a bound program");
  return integer_scalar(x_[node.slot], node.type);
}

bool PieceEvaluator::load(const Node& node, std::span<const Scalar> operands, Scalar& element) {
  const Access& access = piece_.loads[node.slot];
  const BoundTensor& tensor = program_.tensors[access.tensor];
  int64_t position = 0;
  switch (locate(access, loads_[node.slot], operands, position)) {
    case Place::invalid:
      return false;
    case Place::outside:
      element = integer_scalar(0, tensor.type);
      return true;
    case Place::inside:
      break;
  }
  size_t offset = static_cast<size_t>(position) * byte_size(tensor.type);
  element = load_element(elements_[access.tensor] + offset, tensor.type);
  return true;
}

void PieceEvaluator::iterate(const Node&, int64_t) {
  if (work_) work_();
}

bool PieceEvaluator::evaluate(std::span<const int64_t> x) {
  x_ = x;
  if (!evaluate_body(piece_.body, *this, values_)) return false;
  for (size_t o = 0; o < cells_.size(); ++o) {
    if (locate(piece_.stores[o], stores_[o], {}, cells_[o]) != Place::inside) return false;
  }
  return true;
}

}  // namespace tile
