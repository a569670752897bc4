#include "core/autodiff/loops/ordered_fold.h"

#include <algorithm>

#include "core/autodiff/derivation/index_expression.h"
#include "core/autodiff/loops/tangents.h"
#include "core/passes/normalize/fold_region.h"

namespace tile {
namespace {

constexpr int64_t kBlock = 16;

// Where the states of one carried value are.
struct StatePlace {
  TensorId tensor;
  int component = -1;
  DType type = DType::none;
};

class Adjoint {
 public:
  Adjoint(Derivation& derivation, const Statement& statement, const OrderedFold& of, TensorId d)
      : derivation_(derivation),
        statement_(statement),
        of_(of),
        around_(of.around),
        fold_(of.fold),
        type_(carried_type(of.components[0])),
        d_(d) {}

  void run() {
    add_states();
    add_adjoints();
    differentiate_step();
    differentiate_starts();
  }

 private:
  DType carried_type(size_t k) const { return of_.around.body[of_.fold.args[k + 2]].type; }
  const std::string& name() const { return derivation_.tensor(statement_.result).name; }
  static NodeId copied(Body& to, const Body& from, NodeId id) {
    return graft(to, from, id, [](Body&, const Node&) { return NodeId{-1}; });
  }
  static int components_of(size_t count) { return count == 1 ? 0 : static_cast<int>(count); }

  // Cells with one more dimension of `size`, at `at`.
  SymbolicContraction over_trips(const Expr& at, const Expr& size) const {
    SymbolicContraction c = over_cells(around_, of_.cells, statement_.span);
    c.out_index.push_back(at);
    c.out_size.push_back(size);
    return c;
  }
  SymbolicAccess state_access(const StatePlace& place, const Expr& at) const {
    SymbolicAccess a = cell_access(place.tensor, of_.cells, -1, statement_.span);
    a.index.push_back(at);
    if (place.component >= 0) a.index.emplace_back(place.component);
    return a;
  }

  // The read of that tensor at the place that operand 0 of the load says.
  SymbolicAccess state_access_by_value(const StatePlace& place) const {
    SymbolicAccess a = state_access(place, 0);
    a.values.assign(a.index.size(), -1);
    a.values[of_.cells.size()] = 0;
    return a;
  }

  // Long folds keep each state that is a multiple of these strides from an end, so that no state is
  // more than a block away from another.
  std::vector<int64_t> strides() const {
    const Expr& most = of_.trips.most;
    if (most.is_constant() && most.value() <= 2 * kBlock) return {};
    bool short_fold = most.is_constant() && most.value() <= 2 * kBlock * kBlock;
    return short_fold ? std::vector{kBlock} : std::vector{kBlock * kBlock, kBlock};
  }
  Expr blocks(int64_t stride) const { return trunc_div(of_.trips.most, Expr(stride)) + 1; }

  // A fold of `trips` in number from a state `stride` trips away at most.
  struct Part {
    NodeId trips;  // of this part
    NodeId first;  // how many are before it
    NodeId block;  // the place of its start among the states of the stride; -1: the fold's own
  };
  static Part part_of(Body& body, NodeId trips, int64_t stride) {
    if (stride == 0) return {trips, body.integer(0, DType::i64), NodeId()};
    NodeId by = body.integer(stride, DType::i64);
    NodeId rest = body.operation(Op::mod, {trips, by}, DType::i64);
    NodeId first = body.operation(Op::sub, {trips, rest}, DType::i64);
    return {rest, first, body.operation(Op::div, {trips, by}, DType::i64)};
  }
  NodeId length_of(Body& body) const {
    NodeId begin = copied(body, around_.body, fold_.args[0]);
    NodeId end = copied(body, around_.body, fold_.args[1]);
    return body.operation(Op::sub, {end, begin}, DType::i64);
  }
  // As many trips as the index, times `stride`, says, and not more than there are.
  NodeId trips_at(Body& body, size_t slot, int64_t stride) const {
    NodeId trips = body.index(slot, DType::i64);
    if (stride != 1) {
      NodeId by = body.integer(stride, DType::i64);
      trips = body.operation(Op::mul, {trips, by}, DType::i64);
    }
    if (of_.trips.exact) return trips;
    NodeId length = length_of(body), zero = body.integer(0, DType::i64);
    length = body.operation(Op::max, {length, zero}, DType::i64);
    return body.operation(Op::min, {trips, length}, DType::i64);
  }

  // states[cells, t]: the carried values before trip t.
  void add_states() {
    std::vector<StatePlace> coarser;
    int64_t stride = 0;
    for (int64_t next : strides()) {
      coarser = states_at(next, stride, coarser, blocks(next), "_blocks");
      stride = next;
    }
    states_ = states_at(1, stride, coarser, of_.trips.most, "_states");
  }
  // The states before each multiple of `stride`, from those of a coarser one.
  std::vector<StatePlace> states_at(int64_t stride, int64_t coarser_stride,
                                    const std::vector<StatePlace>& coarser, const Expr& size,
                                    const std::string& suffix) {
    std::vector<StatePlace> places(fold_.slot);
    for (const auto& [type, components] : components_by_type(around_.body, fold_)) {
      SymbolicContraction c = over_trips(0, size);
      size_t slot = add_trip_index(c, LoopTrips{size, true, std::nullopt}, 0, fold_.span);
      c.out_index.back() = Expr::variable(c.indices.back());
      c.components = components_of(components.size());
      Body& body = c.body;
      Part part = part_of(body, trips_at(body, slot, stride), coarser_stride);
      NodeId id = add_part(c, part, coarser);
      for (size_t k : components) body.results.push_back(body.component(id, k, type, fold_.span));
      body = tidied(body);
      drop_unread_values(c);
      TensorId made = derivation_.add(suffixed(name(), suffix), statement_.span, c);
      for (size_t p = 0; p < components.size(); ++p) {
        int component = components.size() == 1 ? -1 : static_cast<int>(p);
        places[components[p]] = {made, component, type};
      }
    }
    return places;
  }
  // The forward fold over the part's trips.
  NodeId add_part(SymbolicContraction& c, const Part& part,
                  const std::vector<StatePlace>& coarser) const {
    Body& body = c.body;
    size_t carried = fold_.slot;
    Node fold = fold_;
    fold.args = {body.integer(0, DType::i64), part.trips};
    for (size_t k = 0; k < carried; ++k) {
      fold.args.push_back(part.block.valid() ? start(c, coarser[k], part.block)
                                             : copied(body, around_.body, fold_.args[k + 2]));
    }
    NodeId begin = copied(body, around_.body, fold_.args[0]);
    fold.args.push_back(body.operation(Op::add, {begin, part.first}, DType::i64));
    Body region;
    NodeId own = region.argument(0, DType::i64),
           first = region.argument(fold_.slot + 1, DType::i64);
    std::vector<NodeId> given{region.operation(Op::add, {first, own}, DType::i64)};
    for (size_t a = 2; a < fold_.args.size(); ++a) {
      bool captured = a >= carried + 2;
      size_t slot = captured ? a : a - 1;
      given.push_back(region.argument(slot, around_.body[fold_.args[a]].type));
      if (captured) fold.args.push_back(copied(body, around_.body, fold_.args[a]));
    }
    for (NodeId result : fold_.region->results)
      region.results.push_back(region_value(region, *fold_.region, result, given));
    fold.region = std::make_shared<const Body>(tidied(region));
    return body.add(std::move(fold));
  }
  NodeId start(SymbolicContraction& c, const StatePlace& place, NodeId block) const {
    c.accesses.push_back(state_access_by_value(place));
    return c.body.load(c.accesses.size() - 1, place.type, fold_.span, {block});
  }

  // adjoints[cells, t]: of the carried values before trip t; after the last trip those of the
  // fold's results. Those of blocks count from the last trip.
  void add_adjoints() {
    TensorId coarser;
    int64_t stride = 0;
    for (int64_t next : strides()) {
      coarser = adjoints_at(next, stride, coarser, blocks(next), "_blocks");
      stride = next;
    }
    adjoints_ = adjoints_at(1, stride, coarser, of_.trips.most + 1, "_states");
  }
  TensorId adjoints_at(int64_t stride, int64_t coarser_stride, TensorId coarser, const Expr& size,
                       const std::string& suffix) {
    SymbolicContraction c = over_trips(0, size);
    size_t slot = add_trip_index(c, LoopTrips{size, true, std::nullopt}, 0, fold_.span);
    c.out_index.back() = Expr::variable(c.indices.back());
    c.components = components_of(of_.components.size());
    Body& body = c.body;
    NodeId begin = copied(body, around_.body, fold_.args[0]), length = length_of(body);
    Part part =
        part_of(body, stride == 1 ? trips_behind(body, slot, length) : trips_at(body, slot, stride),
                coarser_stride);
    Node back = fold_;
    back.slot = of_.components.size();
    back.args = {body.integer(0, DType::i64), part.trips};
    for (size_t p = 0; p < of_.components.size(); ++p) {
      int component = of_.components.size() == 1 ? -1 : static_cast<int>(p);
      back.args.push_back(part.block.valid() ? start(c, {coarser, component, type_}, part.block)
                                             : seed(c, p));
    }
    back.args.insert(back.args.end(), {begin, length, part.first});
    for (size_t a = fold_.slot + 2; a < fold_.args.size(); ++a)
      back.args.push_back(copied(body, around_.body, fold_.args[a]));
    back.region = std::make_shared<const Body>(step_back(c));
    NodeId id = body.add(std::move(back));
    for (size_t p = 0; p < of_.components.size(); ++p)
      body.results.push_back(body.component(id, p, type_, fold_.span));
    body = tidied(body);
    drop_unread_values(c);
    return derivation_.add(suffixed(derivation_.adjoint_name(statement_.result), suffix),
                           statement_.span, std::move(c));
  }
  // From the last trip down to the one of the index.
  static NodeId trips_behind(Body& body, size_t slot, NodeId length) {
    NodeId t = body.index(slot, DType::i64), zero = body.integer(0, DType::i64);
    NodeId behind = body.operation(Op::sub, {length, t}, DType::i64);
    return body.operation(Op::max, {behind, zero}, DType::i64);
  }
  NodeId seed(SymbolicContraction& c, size_t position) const {
    int component = of_.components.size() == 1 ? -1 : static_cast<int>(position);
    c.accesses.push_back(cell_access(d_, of_.cells, component, statement_.span));
    return c.body.load(c.accesses.size() - 1, type_, fold_.span);
  }

  // One trip back: arguments are how many trips of the part are behind, the adjoints, the fold's
  // begin and length, how many trips are behind the part, and what the fold captures.
  Body step_back(SymbolicContraction& c) const {
    Body region;
    size_t count = of_.components.size();
    NodeId behind = region.argument(0, DType::i64), begin = region.argument(count + 1, DType::i64);
    NodeId before = region.argument(count + 3, DType::i64);
    behind = region.operation(Op::add, {before, behind}, DType::i64);
    NodeId length = region.argument(count + 2, DType::i64), one = region.integer(1, DType::i64);
    NodeId last = region.operation(Op::sub, {length, one}, DType::i64);
    NodeId trip = region.operation(Op::sub, {last, behind}, DType::i64);
    std::vector<NodeId> given{region.operation(Op::add, {begin, trip}, DType::i64)};
    for (const StatePlace& place : states_) {
      c.accesses.push_back(state_access_by_value(place));
      given.push_back(region.load(c.accesses.size() - 1, place.type, fold_.span, {trip}));
    }
    for (size_t a = fold_.slot + 2; a < fold_.args.size(); ++a) {
      size_t slot = a - fold_.slot - 2 + count + 4;
      given.push_back(region.argument(slot, around_.body[fold_.args[a]].type));
    }
    add_products(region, given);
    return tidied(region);
  }
  // The adjoints before the step from those after it, which are arguments 1 and on.
  void add_products(Body& region, const std::vector<NodeId>& given) const {
    Body step = floats_only();
    std::vector<size_t> directions;
    for (size_t k : of_.components) directions.push_back(k + 1);
    Body dual = with_tangents(step, directions, type_);
    size_t count = directions.size();
    for (size_t to = 0; to < count; ++to) {
      NodeId sum;
      for (size_t from = 0; from < count; ++from) {
        NodeId root = dual.results[step.results.size() + from * count + to];
        if (dual[root].kind == NodeKind::real && dual[root].real == 0) continue;
        NodeId factor = region_value(region, dual, root, given);
        NodeId part = region.argument(from + 1, type_);
        bool whole = region[factor].kind == NodeKind::real && region[factor].real == 1;
        if (!whole) part = region.operation(Op::mul, {part, factor}, type_, fold_.span);
        sum = sum.valid() ? region.operation(Op::add, {sum, part}, type_, fold_.span) : part;
      }
      region.results.push_back(sum.valid() ? sum : region.real(0, type_));
    }
  }
  // The step's results that have adjoints.
  Body floats_only() const {
    Body step = *fold_.region;
    step.results.clear();
    for (size_t k : of_.components) step.results.push_back(fold_.region->results[k]);
    return step;
  }

  // One step at the stored state of each trip, as if it were a statement whose result is the next
  // state.
  void differentiate_step() {
    SymbolicContraction c = over_trips(0, of_.trips.most + 1);
    size_t slot = add_trip_index(c, of_.trips, 0, fold_.span);
    Expr t = Expr::variable(c.indices.back());
    c.out_index.back() = t + 1;
    c.components = components_of(of_.components.size());
    Body& body = c.body;
    NodeId counter = trip_counter(body, around_.body, fold_, slot, 0);
    std::vector<NodeId> given = region_arguments(body, around_.body, fold_, counter);
    for (size_t k = 0; k < states_.size(); ++k) {
      c.accesses.push_back(state_access(states_[k], t));
      given[k + 1] = body.load(c.accesses.size() - 1, states_[k].type, fold_.span);
    }
    for (size_t k : of_.components) {
      NodeId root = fold_.region->results[k];
      body.results.push_back(region_value(body, *fold_.region, root, given));
    }
    if (of_.trips.by_value()) {
      NodeId test = trip_condition(body, around_.body, fold_, counter);
      for (size_t p = 0; p < body.results.size(); ++p) {
        NodeId old = given[of_.components[p] + 1];
        body.results[p] =
            body.operation(Op::select, {test, body.results[p], old}, type_, fold_.span);
      }
    }
    body = tidied(body);
    drop_unread_values(c);
    differentiate_contraction(derivation_, statement_, c, adjoints_);
  }

  void differentiate_starts() {
    SymbolicContraction c = over_trips(0, of_.trips.most + 1);
    c.components = components_of(of_.components.size());
    for (size_t k : of_.components) {
      NodeId start = fold_.args[k + 2];
      c.body.results.push_back(copied(c.body, around_.body, start));
    }
    c.body = tidied(c.body);
    drop_unread_values(c);
    differentiate_contraction(derivation_, statement_, c, adjoints_);
  }

  Derivation& derivation_;
  const Statement& statement_;
  const OrderedFold& of_;
  const SymbolicContraction& around_;
  const Node& fold_;
  DType type_;
  TensorId d_;
  std::vector<StatePlace> states_;
  TensorId adjoints_;
};

}  // namespace

void differentiate_ordered_fold(Derivation& derivation, const Statement& statement,
                                const OrderedFold& fold, TensorId adjoint) {
  Adjoint(derivation, statement, fold, adjoint).run();
}

}  // namespace tile
