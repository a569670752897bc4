// Adjoints of whole-tensor operations.
#include "core/autodiff/derivation/derivation.h"

namespace tile {
namespace {

class Rule {
 public:
  Rule(Derivation& derivation, const Statement& statement, const Call& call, TensorId d)
      : derivation_(derivation), statement_(statement), call_(call), d_(d) {}

  void run() {
    switch (call_.function) {
      case Function::reshape:
        return give(0, Function::reshape_like, {d_, call_.tensors[0]});
      case Function::reshape_like:
        return give(0, Function::reshape_like, {d_, call_.tensors[0]});
      case Function::transpose:
        return transpose();
      case Function::gather:
        return give(0, Function::scatter, {d_, call_.tensors[1]},
                    {derivation_.extent(call_.tensors[0], 0)});
      case Function::scatter:
        return give(0, Function::gather, {d_, call_.tensors[1]});
      case Function::concat:
        return concat();
      case Function::slice:
        return give(0, Function::unslice, {d_, call_.tensors[0]}, call_.sizes);
      case Function::unslice:
        return give(0, Function::slice, {d_}, call_.sizes);
      case Function::cumsum:
        return cumsum();
      case Function::sort:
        return sort();
      case Function::permute_along:
        return permute();
      case Function::sum_to:
        return broadcast();
      case Function::shape:
      case Function::index:
      case Function::argmax:
      case Function::argmin:
      case Function::argsort:
      case Function::prng_uniform:
        return;
    }
  }

 private:
  std::string name(size_t operand) const {
    return derivation_.adjoint_name(call_.tensors[operand]);
  }
  void give(size_t operand, Function function, std::vector<TensorId> tensors,
            std::vector<Expr> sizes = {}) {
    if (!derivation_.active(call_.tensors[operand])) return;
    derivation_.contribute(call_.tensors[operand],
                           derivation_.call(name(operand), statement_.span, function,
                                            std::move(tensors), std::move(sizes)));
  }

  void transpose() {
    std::vector<Expr> inverse(call_.sizes.size());
    for (size_t i = 0; i < call_.sizes.size(); ++i) {
      const Expr& axis = call_.sizes[i];
      bool known = axis.is_constant() && axis.value() >= 0 &&
                   axis.value() < static_cast<int64_t>(inverse.size());
      if (!known) {
        fail(Stage::bind, "derivative", statement_.span,
             "the derivative of a transpose needs axes that are numbers");
      }
      inverse[static_cast<size_t>(axis.value())] = Expr(static_cast<int64_t>(i));
    }
    give(0, Function::transpose, {d_}, inverse);
  }

  // Each part takes its slice along the axis.
  void concat() {
    const Expr& axis = call_.sizes[0];
    if (!axis.is_constant() || axis.value() < 0) {
      fail(Stage::bind, "derivative", statement_.span,
           "the derivative of concat needs an axis that is a number");
    }
    auto along = static_cast<size_t>(axis.value());
    Expr start(0);
    for (size_t i = 0; i < call_.tensors.size(); ++i) {
      Expr stop = start + derivation_.extent(call_.tensors[i], along);
      give(i, Function::slice, {d_}, {axis, start, stop, Expr(1)});
      start = stop;
    }
  }

  TensorId reversed(TensorId id, const std::string& as) {
    const Expr& axis = call_.sizes[0];
    Expr last = derivation_.extent(id, static_cast<size_t>(axis.value())) - Expr(1);
    return derivation_.call(as, statement_.span, Function::slice, {id},
                            {axis, last, Expr(-1), Expr(-1)});
  }
  // A running sum from the other end.
  void cumsum() {
    if (!derivation_.active(call_.tensors[0])) return;
    const Expr& axis = call_.sizes[0];
    if (!axis.is_constant() || axis.value() < 0) {
      fail(Stage::bind, "derivative", statement_.span,
           "the derivative of cumsum needs an axis that is a number");
    }
    TensorId backwards = reversed(d_, suffixed(name(0), "_r"));
    TensorId sums = derivation_.call(suffixed(name(0), "_s"), statement_.span, Function::cumsum,
                                     {backwards}, {axis});
    derivation_.contribute(call_.tensors[0], reversed(sums, name(0)));
  }

  TensorId permutation(TensorId of, const Expr& axis, const std::string& suffix) {
    return derivation_.call(suffixed(derivation_.tensor(statement_.result).name, suffix),
                            statement_.span, Function::argsort, {of}, {axis});
  }
  // Element i came from place order[i], so its adjoint goes back by the inverse permutation.
  void sort() {
    if (!derivation_.active(call_.tensors[0])) return;
    TensorId order = permutation(call_.tensors[0], call_.sizes[0], "_order");
    TensorId rank = permutation(order, call_.sizes[0], "_rank");
    give(0, Function::permute_along, {d_, rank}, {call_.sizes[0]});
  }
  void permute() {
    if (!derivation_.active(call_.tensors[0])) return;
    TensorId inverse = permutation(call_.tensors[1], call_.sizes[0], "_inverse");
    give(0, Function::permute_along, {d_, inverse}, {call_.sizes[0]});
  }

  // The adjoint of a sum over broadcast dimensions is the broadcast: the shape is the operand's.
  void broadcast() {
    if (!derivation_.active(call_.tensors[0])) return;
    Body body;
    NodeId d = body.load(0), like = body.load(1);
    body.results = {body.operation(Op::cast_like, {d, like})};
    derivation_.contribute(
        call_.tensors[0],
        derivation_.elementwise(name(0), statement_.span, {d_, call_.tensors[0]}, std::move(body)));
  }

  Derivation& derivation_;
  const Statement& statement_;
  const Call& call_;
  TensorId d_;
};

}  // namespace

void differentiate_call(Derivation& derivation, const Statement& statement, const Call& call,
                        TensorId d) {
  Rule(derivation, statement, call, d).run();
}

}  // namespace tile
