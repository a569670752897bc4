// The text form of bound programs. One line for each tensor, condition and access; "%0" as an index
// is the first operand of the load nodes:
//
//   tensor A: f32 [3, 4] input
//   tensor V: f32 [12] temporary view A
//   tensor W: i32 [2] temporary constant [3, -1]
//   tensor K: f32 [3, 3] input fixed
//   inputs [A]
//   outputs [O]
//   contraction [O] + f32 default P normalized injective {
//     piece [i, j] box [3, 4] parallel 1 {
//       where 0 <= i - 1/2*j < 3
//       where integral 0 <= 1/2*j < 2
//       store O[i]
//       load A[i, j !clamp]
//       load T[%0]
//       body { %0:f32 = load 0; %1:i64 = index 0; %2:f32 = load 1 %1; %3:f32 = add %0 %2; yield %3
//       }
//     }
//   }
//   sort R = A axis 0 indices
//   scatter R = U at I
//   repeat R = 100 of [A, W] {
//     tensor …, inputs, outputs and statements of the step
//   }
#include "core/ir/bound.h"
#include "core/ir/bound_text.h"
#include "core/ir/ranks/rank_program.h"
#include "core/ir/scalar.h"
#include "core/ir/text.h"

namespace tile {
namespace {

class Printer {
 public:
  explicit Printer(const BoundProgram& program) : program_(program) {}

  std::string run() {
    declarations();
    for (const BoundStatement& statement : program_.statements) print_statement(statement);
    return std::move(out_);
  }

  std::string run(const RankProgram& rank) {
    declarations();
    for (RankStep step : steps_of(rank)) {
      if (step.kind == RankStep::Kind::statement) {
        print_statement(program_.statements[step.number]);
        continue;
      }
      const PlacedExchange& exchange = rank.exchanges[step.number];
      if (step.kind == RankStep::Kind::begin) {
        print_exchange(exchange);
      } else if (exchange.travels()) {
        out_ += "end " + name(exchange.what.result) + "\n";
      }
    }
    for (const PartOfTensor& part : rank.parts) {
      out_ += "part " + name(part.part) + " of " + name(part.whole) + " " +
              print_integers(part.at) + "\n";
    }
    return std::move(out_);
  }

 private:
  const std::string& name(TensorId id) const { return program_.tensors[id].name; }
  std::string names(const std::vector<TensorId>& ids) const {
    std::string list;
    for (TensorId id : ids) list += (list.empty() ? "" : ", ") + name(id);
    return "[" + list + "]";
  }

  void declarations() {
    for (const BoundTensor& tensor : program_.tensors) print_tensor(tensor);
    out_ += "inputs " + names(program_.inputs) + "\noutputs " + names(program_.outputs) + "\n";
  }

  void print_tensor(const BoundTensor& tensor) {
    out_ += "tensor " + tensor.name + ": " + std::string(to_string(tensor.type)) + " " +
            print_integers(tensor.shape) + " " +
            std::string(kRoleNames[static_cast<size_t>(tensor.role)]);
    if (tensor.view_of) out_ += " view " + name(*tensor.view_of);
    if (tensor.tf32_parts) out_ += " parts";
    if (tensor.fixed) out_ += " fixed";
    if (tensor.constant) out_ += " constant " + elements(tensor);
    out_ += "\n";
  }

  static std::string elements(const BoundTensor& tensor) {
    std::string list;
    for (size_t at = 0; at < tensor.constant->size(); at += byte_size(tensor.type)) {
      Scalar value = load_element(&(*tensor.constant)[at], tensor.type);
      list += (list.empty() ? "" : ", ") +
              (is_float(value.type) ? print_real(value.f) : std::to_string(value.i));
    }
    return "[" + list + "]";
  }

  void print_statement(const BoundStatement& statement) {
    std::visit([this](const auto& s) { print_one(s); }, statement);
  }
  void print_one(const Contraction& c) {
    out_ += "contraction " + names(c.outputs) + " " + std::string(to_string(c.aggregation)) + " " +
            std::string(to_string(c.accumulator));
    if (c.fill) out_ += " default " + name(*c.fill);
    if (c.normalized) out_ += " normalized";
    if (c.promised_injective) out_ += " injective";
    out_ += " {\n";
    for (const Piece& piece : c.pieces) print_piece(piece);
    out_ += "}\n";
  }
  void print_one(const Sort& s) {
    out_ += "sort " + name(s.result) + " = " + name(s.source) + " axis " + std::to_string(s.axis) +
            (s.indices ? " indices\n" : "\n");
  }
  void print_one(const Scatter& s) {
    out_ += "scatter " + name(s.result) + " = " + name(s.updates) + " at " + name(s.indices) + "\n";
  }

  void print_one(const BoundRepeat& r) {
    out_ += "repeat " + name(r.result) + " = " + std::to_string(r.trips) + " of " +
            names(r.operands) + " {\n" + tile::print(*r.step) + "}\n";
  }

  void print_exchange(const PlacedExchange& placed) {
    const Exchange& e = placed.what;
    out_ += "exchange " + name(e.result) + " = " + name(e.source);
    if (e.reduction) out_ += " " + std::string(to_string(*e.reduction));
    if (e.sparse) out_ += " sparse";
    if (e.piece) out_ += " piece";
    if (placed.travels()) out_ += " travels";
    out_ += " {\n";
    auto parts = [this](const char* how, const std::vector<Exchange::Part>& list) {
      for (const Exchange::Part& part : list) {
        out_ += std::string("  ") + how + " " + std::to_string(part.rank) + " " +
                print_integers(part.box.lo) + " to " + print_integers(part.box.hi) + "\n";
      }
    };
    parts("send", e.sends);
    parts("receive", e.receives);
    out_ += "}\n";
  }

  void print_piece(const Piece& piece) {
    out_ += "  piece [";
    for (size_t i = 0; i < piece.iterators.size(); ++i) {
      out_ += (i == 0 ? "" : ", ") + piece.iterators[i];
    }
    out_ += "]";
    if (!piece.box.empty()) out_ += " box " + print_integers(piece.box);
    if (piece.parallel_dims != 0) out_ += " parallel " + std::to_string(piece.parallel_dims);
    out_ += " {\n";
    for (const Constraint& c : piece.constraints) {
      out_ += std::string("    where ") + (c.integral ? "integral " : "") + std::to_string(c.lo) +
              " <= " + to_string(c.form, piece.iterators) + " < " + std::to_string(c.hi) + "\n";
    }
    for (const Access& a : piece.stores) print_access("store", a, piece);
    for (const Access& a : piece.loads) print_access("load", a, piece);
    out_ += "    body " + print(piece.body) + "\n  }\n";
  }

  void print_access(const char* what, const Access& access, const Piece& piece) {
    out_ += std::string("    ") + what + " " + name(access.tensor) + "[";
    for (size_t d = 0; d < access.index.size(); ++d) {
      const Index& index = access.index[d];
      if (d != 0) out_ += ", ";
      out_ += index.value >= 0 ? "%" + std::to_string(index.value)
                               : to_string(index.affine, piece.iterators);
      if (index.boundary != Boundary::in_range) {
        out_ += " !" + std::string(kBoundaryNames[static_cast<size_t>(index.boundary)]);
      }
    }
    out_ += "]\n";
  }

  const BoundProgram& program_;
  std::string out_;
};

}  // namespace

std::string print(const BoundProgram& program) { return Printer(program).run(); }

std::string print(const RankProgram& program) { return Printer(program.program).run(program); }

}  // namespace tile
