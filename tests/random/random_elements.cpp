#include "tests/random/random_elements.h"

#include <memory>
#include <numeric>

namespace tile::test {
namespace {

class Draw {
 public:
  Draw(uint64_t seed, const ElementOptions& options) : random_(seed), options_(options) {}

  ElementProgram run() {
    size_t rank = 1 + below(3);
    ElementProgram drawn;
    BoundProgram& p = drawn.program;
    for (size_t d = 0; d < rank; ++d) shape_.push_back(size(rank, d));
    p.source = std::make_shared<const Source>(Source{"drawn", ""});
    components_ = below(3) == 0 ? between(2, 4) : 0;
    constexpr DType kIntegers[] = {DType::i32, DType::u8, DType::u16};
    constexpr DType kResults[] = {DType::f32, DType::f32, DType::u8, DType::u16};
    integers_ = kIntegers[below(3)];
    DType result = kResults[below(4)];
    Shape shape = shape_;
    if (components_ > 0) shape.push_back(components_);
    p.tensors.push_back({"A", DType::f32, shape, TensorRole::input, {}, {}});
    p.tensors.push_back({"B", integers_, shape, TensorRole::input, {}, {}});
    p.tensors.push_back({"C", result, shape, TensorRole::output, {}, {}});
    p.inputs = {TensorId(0), TensorId(1)};
    p.outputs = {TensorId(2)};
    Contraction c;
    c.pieces.emplace_back();
    piece_ = &c.pieces[0];
    Access store;
    store.tensor = TensorId(2);
    for (size_t d = 0; d < rank; ++d) {
      piece_->iterators.push_back(std::string(1, static_cast<char>('x' + d)));
      store.index.push_back({iterator_affine(d), -1, Boundary::in_range});
    }
    c.aggregation = Aggregation::assign;
    if (options_.reduces && below(4) == 0) window(c);
    bodies_ = {&piece_->body};
    for (int64_t k = 0; k < std::max<int64_t>(components_, 1); ++k) {
      NodeId value = term();
      for (size_t i = below(4); i-- > 0;) {
        value = body().operation(Op::add, {value, term()}, DType::f32);
      }
      piece_->body.results.push_back(value);
      c.outputs.push_back(TensorId(2));
      piece_->stores.push_back(store);
      if (components_ > 0) piece_->stores.back().index.push_back(component(k));
    }
    p.statements.emplace_back(std::move(c));
    for (TensorId id : p.inputs) drawn.inputs.push_back(integers(p.tensors[id]));
    return drawn;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  int64_t between(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(below(static_cast<uint64_t>(hi - lo + 1)));
  }
  Body& body() { return *bodies_.back(); }

  int64_t size(size_t rank, size_t d) {
    if (options_.large) return d + 1 == rank ? between(150, 300) : between(6, 12);
    return below(5) == 0 ? 1 : between(2, rank == 1 ? 70 : d + 1 == rank ? 24 : 7);
  }

  HostTensor integers(const BoundTensor& t) {
    HostTensor values(t.type, t.shape);
    for (int64_t i = 0; i < values.count(); ++i) {
      values.set(i, integer_scalar(between(is_unsigned_integer(t.type) ? 0 : -3, 4), t.type));
    }
    return values;
  }

  static Index component(int64_t k) {
    return {constant_affine(Rational(k)), -1, Boundary::in_range};
  }

  // A sum, maximum or minimum over a window in one more iterator.
  void window(Contraction& c) {
    constexpr Aggregation kAll[] = {Aggregation::sum, Aggregation::max, Aggregation::min};
    c.aggregation = kAll[below(3)];
    piece_->iterators.emplace_back("k");
    Constraint range{iterator_affine(piece_->iterators.size() - 1), 0, between(1, 4), false};
    piece_->constraints.push_back(range);
  }

  NodeId number(int64_t n) { return body().integer(n, DType::i32); }
  NodeId i32(Op op, std::vector<NodeId> args) {
    return body().operation(op, std::move(args), DType::i32);
  }

  // A small integer of an index, or a fold's counter where there is one.
  NodeId index_node() {
    bool counter = bodies_.size() > 1 && below(2) == 0;
    if (counter) return body().cast(body().argument(0, DType::i64), DType::i32);
    auto slot = static_cast<int>(below(piece_->iterators.size()));
    return body().cast(body().index(slot, DType::i64), DType::i32);
  }
  NodeId integer_term() {
    NodeId a = index_node();
    switch (below(options_.division ? 6 : 4)) {
      case 0:
        return i32(Op::sub, {a, index_node()});
      case 1:
        return i32(Op::sub, {number(between(0, 9)), a});
      case 2:
        return i32(below(2) == 0 ? Op::max : Op::min, {a, number(between(0, 5))});
      case 3:
        return i32(Op::add, {a, number(between(-3, 3))});
      case 4:
        return i32(Op::div, {a, number(between(1, 4))});
      default:
        return i32(Op::mod, {a, number(between(1, 4))});
    }
  }
  NodeId condition() {
    constexpr Op kAll[] = {Op::lt, Op::le, Op::gt, Op::ge, Op::eq, Op::ne};
    NodeId a = integer_term();
    NodeId one = body().operation(kAll[below(6)], {a, number(between(0, 6))}, DType::bool_);
    if (below(2) == 0) return one;
    Op op = below(2) == 0 ? Op::logical_and : Op::logical_or;
    return body().operation(op, {one, condition()}, DType::bool_);
  }

  // An element of A or B under drawn boundary rules, as f32.
  NodeId element() {
    constexpr Boundary kAll[] = {Boundary::clamp, Boundary::mirror, Boundary::wrap,
                                 Boundary::constant};
    Access access;
    access.tensor = TensorId(below(2));
    std::vector<NodeId> operands;
    for (size_t d = 0; d < shape_.size(); ++d) {
      Index index;
      index.boundary = kAll[below(4)];
      if (below(bodies_.size() > 1 ? 2 : 4) == 0) {
        index.value = static_cast<int>(operands.size());
        operands.push_back(below(5) == 0 ? data_value() : integer_term());
      } else {
        size_t u = below(5) == 0 ? below(piece_->iterators.size()) : d;
        index.affine = iterator_affine(u) * Rational(below(6) == 0 ? -1 : 1) +
                       constant_affine(Rational(between(-3, 3)));
        if (piece_->iterators.size() > shape_.size() && below(2) == 0) {
          index.affine = index.affine + iterator_affine(shape_.size());
        }
      }
      access.index.push_back(index);
    }
    if (components_ > 0) {
      access.index.push_back(component(between(0, components_ - 1)));
    }
    piece_->loads.push_back(access);
    DType type = access.tensor == TensorId(0) ? DType::f32 : integers_;
    NodeId value = body().load(piece_->loads.size() - 1, type, {}, std::move(operands));
    return body().cast(value, DType::f32);
  }
  // An integer from memory, at the element's own place.
  NodeId data_value() {
    Access access;
    access.tensor = TensorId(1);
    for (size_t d = 0; d < shape_.size(); ++d) {
      access.index.push_back({iterator_affine(d), -1, Boundary::clamp});
    }
    if (components_ > 0) access.index.push_back(component(0));
    piece_->loads.push_back(access);
    return body().load(piece_->loads.size() - 1, integers_);
  }

  NodeId term() {
    uint64_t kind = below(8);
    if (options_.folds && kind < 2 && bodies_.size() < 3) return fold();
    if (options_.conditions && kind == 2) {
      NodeId when = condition();
      NodeId a = element();
      return body().operation(Op::select, {when, a, body().real(2, DType::f32)}, DType::f32);
    }
    if (kind == 3) return body().cast(integer_term(), DType::f32);
    NodeId factor = body().real(static_cast<double>(between(-2, 2)), DType::f32);
    return body().operation(Op::mul, {factor, element()}, DType::f32);
  }

  // A bound of a fold: a literal, an index, or a value from memory.
  NodeId bound() {
    switch (below(3)) {
      case 0:
        return body().integer(between(-2, 4), DType::i64);
      case 1:
        return body().cast(integer_term(), DType::i64);
      default:
        return body().cast(data_value(), DType::i64);
    }
  }

  NodeId fold() {
    bool ordered = below(2) == 0;
    NodeId begin = bound();
    NodeId end = body().operation(
        Op::min,
        {bound(), body().operation(Op::add, {begin, body().integer(5, DType::i64)}, DType::i64)},
        DType::i64);
    NodeId outside = body().cast(integer_term(), DType::f32);
    Node node;
    node.kind = NodeKind::fold;
    node.slot = ordered ? 2 : 1;
    constexpr Op kAny[] = {Op::add, Op::max, Op::min};
    node.op = ordered ? Op::ident : kAny[below(3)];
    node.args = {begin, end, outside};
    if (ordered) node.args.push_back(body().real(1, DType::f32));
    node.args.push_back(outside);
    Body region;
    bodies_.push_back(&region);
    size_t captured = node.slot + 1;
    NodeId value =
        region.operation(Op::add, {term(), region.argument(captured, DType::f32)}, DType::f32);
    if (ordered) {
      NodeId half = region.operation(
          Op::mul, {region.argument(1, DType::f32), region.real(0.5, DType::f32)}, DType::f32);
      NodeId next = region.operation(Op::add, {half, value}, DType::f32);
      region.results = {
          next, region.operation(Op::max, {region.argument(2, DType::f32), next}, DType::f32)};
    } else {
      region.results = {value};
    }
    bodies_.pop_back();
    node.region = std::make_shared<const Body>(std::move(region));
    size_t last = node.slot - 1;
    NodeId id = body().add(std::move(node));
    return body().component(id, last, DType::f32);
  }

  std::mt19937_64 random_;
  ElementOptions options_;
  Shape shape_;
  int64_t components_ = 0;
  DType integers_ = DType::i32;
  Piece* piece_ = nullptr;
  std::vector<Body*> bodies_;
};

}  // namespace

ElementProgram random_elements(uint64_t seed, const ElementOptions& options) {
  return Draw(seed, options).run();
}

}  // namespace tile::test
