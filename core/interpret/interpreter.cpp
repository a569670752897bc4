#include "core/interpret/interpreter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/interpret/whole_tensor.h"
#include "core/ir/analysis/uses.h"
#include "core/ir/ranks/reduce_part.h"
#include "core/ir/text.h"
#include "core/support/bytes_text.h"
#include "core/support/checked.h"
#include "core/support/control.h"

namespace tile {

Scalar Interpreter::Cells::value(size_t at) const {
  if (is_float(type)) return {type, 0, std::bit_cast<double>(bits[at])};
  return {type, bits[at], 0};
}

void Interpreter::Cells::set(size_t at, const Scalar& value) {
  bits[at] = is_float(type) ? std::bit_cast<int64_t>(value.f) : value.i;
}

Interpreter::Interpreter(const BoundProgram& program, const std::vector<HostTensor>& inputs,
                         const InterpretOptions& options, bool with_magnitudes)
    : program_(program),
      options_(options),
      meter_(options.point_limit),
      with_magnitudes_(with_magnitudes),
      in_order_(options.in_order) {
  check_memory(options.byte_limit);
  allocate(inputs);
}

void Interpreter::execute(const BoundStatement& statement) {
  checkpoint_at(std::visit([](const auto& s) { return s.span; }, statement));
  if (const auto* contraction = std::get_if<Contraction>(&statement)) {
    contract(*contraction);
  } else if (const auto* sort = std::get_if<Sort>(&statement)) {
    run_sort(*sort, tensor(sort->source), tensor(sort->result));
  } else if (const auto* repeat = std::get_if<BoundRepeat>(&statement)) {
    this->repeat(*repeat);
  } else {
    const auto& scatter = std::get<Scatter>(statement);
    run_scatter(scatter, tensor(scatter.updates), tensor(scatter.indices), tensor(scatter.result));
  }
}

// The points of all trips count together.
void Interpreter::repeat(const BoundRepeat& r) {
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < r.operands.size(); ++i) {
    inputs.push_back(tensor(r.operands[i]));
    inputs.back().shape = r.step->tensors[r.step->inputs[i]].shape;
  }
  for (int64_t trip = 0; trip < r.trips; ++trip) {
    Interpreter step(*r.step, inputs, options_, with_magnitudes_);
    step.meter_ = meter_;
    for (const BoundStatement& statement : r.step->statements) step.execute(statement);
    meter_ = step.meter_;
    points_ += step.points_;
    Interpretation result = step.collect();
    inputs[0] = std::move(result.outputs[0]);
    if (!with_magnitudes_) continue;
    std::vector<double>& sums = magnitudes_[r.result];
    sums.resize(static_cast<size_t>(inputs[0].count()));
    for (int64_t i = 0; i < inputs[0].count(); ++i) sums[i] = result.magnitudes[0].at(i).f;
  }
  std::copy(inputs[0].bytes.begin(), inputs[0].bytes.end(), tensor(r.result).bytes.begin());
}

void Interpreter::allocate(const std::vector<HostTensor>& inputs) {
  internal_check(inputs.size() == program_.inputs.size(), "interpret: input count");
  tensors_.resize(program_.tensors.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorId id = program_.inputs[i];
    const BoundTensor& declared = program_.tensors[id];
    internal_check(inputs[i].type == declared.type && inputs[i].shape == declared.shape,
                   "interpret: an input differs from what was bound");
    tensors_[id] = inputs[i];
  }
  for (TensorId id : tensors_.ids()) {
    const BoundTensor& declared = program_.tensors[id];
    if (declared.role == TensorRole::input || declared.view_of) continue;
    tensors_[id] = HostTensor(declared.type, declared.shape);
    if (declared.constant) tensors_[id].bytes = *declared.constant;
  }
  for (TensorId id : tensors_.ids()) {
    elements_.push_back(tensor(id).bytes.data());
  }
}

// The tensors, and beside them the accumulators of one at a time.
void Interpreter::check_memory(int64_t limit) const {
  int64_t total = 0, most = 0;
  for (TensorId id : program_.tensors.ids()) {
    const BoundTensor& declared = program_.tensors[id];
    if (declared.role == TensorRole::input || declared.view_of) continue;
    int64_t count = element_count(declared.shape);
    int64_t bytes = checked_mul(count, static_cast<int64_t>(byte_size(declared.type)));
    total = checked_add(total, bytes);
    most = std::max(most, checked_mul(count, with_magnitudes_ ? 17 : 9));
    if (checked_add(total, most) <= limit) continue;
    fail_limit(Stage::compile, place_of(id),
               "the tensor " + declared.name + ", " + std::string(to_string(declared.type)) +
                   print_integers(declared.shape) + ", takes " +
                   bytes_text(static_cast<size_t>(bytes)) +
                   "; all that the interpreter makes, and " + "what it computes with, may take " +
                   bytes_text(static_cast<size_t>(limit)),
               "memory_limit");
  }
}

// Where the text makes a tensor.
Span Interpreter::place_of(TensorId id) const {
  for (const BoundStatement& statement : program_.statements) {
    std::vector<TensorId> made = written_by(statement);
    if (std::find(made.begin(), made.end(), id) == made.end()) continue;
    return std::visit([](const auto& s) { return s.span; }, statement);
  }
  return {};
}

void Interpreter::contract(const Contraction& contraction) {
  std::map<TensorId, Cells> cells = empty_cells(contraction);
  for (const Piece& piece : contraction.pieces) {
    size_t nodes = 0;
    visit_nodes(piece.body, [&](const Node&) { ++nodes; });
    meter_.weigh(nodes);
    PieceEvaluator evaluator(program_, elements_, piece, [&] { meter_.visit(contraction.span); });
    auto visit = [&](std::span<const int64_t> x) {
      if (!evaluator.evaluate(x)) return;
      ++points_;
      for (size_t o = 0; o < contraction.outputs.size(); ++o) {
        TensorId id = contraction.outputs[o];
        aggregate(contraction, id, cells.at(id), evaluator.cell(o), evaluator.result(o));
      }
    };
    if (!in_order_) {
      for_each_point(program_, piece, contraction.span, meter_, visit);
      continue;
    }
    std::vector<std::vector<int64_t>> points;
    for_each_point(program_, piece, contraction.span, meter_,
                   [&](std::span<const int64_t> x) { points.emplace_back(x.begin(), x.end()); });
    std::sort(points.begin(), points.end());
    for (const std::vector<int64_t>& x : points) visit(x);
  }
  for (const auto& [id, of] : cells) finish(contraction, id, of);
}

// One for each tensor: several outputs may be parts of one.
std::map<TensorId, Interpreter::Cells> Interpreter::empty_cells(
    const Contraction& contraction) const {
  std::map<TensorId, Cells> all;
  for (TensorId id : contraction.outputs) {
    auto count = static_cast<size_t>(element_count(program_.tensors[id].shape));
    Cells cells;
    cells.type = contraction.accumulator;
    cells.bits.resize(count);
    cells.covered.resize(count);
    if (with_magnitudes_) cells.magnitudes.resize(count);
    all.emplace(id, std::move(cells));
  }
  return all;
}

void Interpreter::aggregate(const Contraction& contraction, TensorId output, Cells& cells,
                            int64_t cell, const Scalar& value) {
  auto at = static_cast<size_t>(cell);
  Scalar term = convert(value, contraction.accumulator);
  if (!cells.covered[at]) {
    cells.covered[at] = true;
  } else if (contraction.aggregation == Aggregation::assign) {
    overlap(contraction, output);
  } else {
    std::array<Scalar, 2> pair{cells.value(at), term};
    term = evaluate(operation_of(contraction.aggregation), contraction.accumulator, pair);
  }
  cells.set(at, term);
  if (!with_magnitudes_) return;
  if (contraction.aggregation == Aggregation::sum) {
    cells.magnitudes[at] += std::fabs(convert(value, DType::f64).f);
  } else {
    cells.magnitudes[at] = std::fabs(convert(term, DType::f64).f);
  }
}

// Rule 4.7.
void Interpreter::overlap(const Contraction& contraction, TensorId output) const {
  const std::string& name = program_.tensors[output].name;
  fail(Stage::compile, "overlap", contraction.span,
       "two valid points of this `=` write the same cell of " + name,
       "aggregate with `+`, or constrain the indices");
}

void Interpreter::finish(const Contraction& contraction, TensorId id, const Cells& cells) {
  HostTensor& result = tensor(id);
  const HostTensor* fill = contraction.fill ? &tensor(*contraction.fill) : nullptr;
  for (size_t at = 0; at < cells.bits.size(); ++at) {
    checkpoint();
    auto cell = static_cast<int64_t>(at);
    if (cells.covered[at]) {
      result.set(cell, convert(cells.value(at), result.type));
    } else {
      result.set(cell, fill != nullptr ? fill->at(cell) : integer_scalar(0, result.type));
    }
  }
  if (with_magnitudes_) magnitudes_[id] = cells.magnitudes;
}

Interpretation Interpreter::collect() {
  Interpretation result;
  result.points = points_;
  for (TensorId id : program_.outputs) {
    HostTensor output = tensor(id);
    output.shape = program_.tensors[id].shape;
    if (with_magnitudes_) result.magnitudes.push_back(magnitude(id, output));
    result.outputs.push_back(std::move(output));
  }
  return result;
}

HostTensor Interpreter::magnitude(TensorId id, const HostTensor& output) const {
  HostTensor sizes(DType::f64, output.shape);
  auto found = magnitudes_.find(id);
  for (int64_t i = 0; i < output.count(); ++i) {
    double size = found != magnitudes_.end() ? found->second[static_cast<size_t>(i)]
                                             : std::fabs(convert(output.at(i), DType::f64).f);
    sizes.set(i, real_scalar(size, DType::f64));
  }
  return sizes;
}

}  // namespace tile
