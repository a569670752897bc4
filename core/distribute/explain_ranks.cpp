#include "core/distribute/explain_ranks.h"

#include <algorithm>
#include <cstdio>

#include "core/ir/text.h"
#include "core/support/checked.h"

namespace tile {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string times(const StatementSummary& s) {
  if (s.times <= 1.0) return "each cell once";
  return "each cell " + number(s.times) + " times";
}

class Teller {
 public:
  Teller(const BoundProgram& program, const PartitionedProgram& p)
      : program_(program), p_(p), mesh_(p.distribution.mesh) {}

  std::string run() {
    out_ = "mesh " + to_string(mesh_) + ": " + std::to_string(mesh_.ranks()) + " ranks\n";
    out_ += "tensors\n";
    for (TensorId id : program_.tensors.ids()) tensor(id);
    out_ += "statements\n";
    for (const StatementSummary& s : p_.statements) statement(s);
    total();
    return std::move(out_);
  }

 private:
  void tensor(TensorId id) {
    const BoundTensor& t = program_.tensors[id];
    if (t.view_of || t.constant || t.name.find('.') != std::string::npos) return;
    const TensorLayout& layout = p_.distribution.layouts[id];
    int64_t most = 0;
    for (const Box& box : boxes_of(layout, t.shape, mesh_)) most = std::max(most, box.count());
    bool chosen = !p_.distribution.named[id] && !p_.distribution.computed.empty();
    out_ += "  " + to_string(layout, t.name, mesh_) + (chosen ? ", chosen: " : ": ") +
            std::string(to_string(t.type)) + " " + print_integers(t.shape) + ", at most " +
            std::to_string(checked_mul(most, static_cast<int64_t>(byte_size(t.type)))) +
            " bytes on a rank\n";
  }

  void statement(const StatementSummary& s) {
    out_ += "  " + to_string(s.computed, s.result, mesh_);
    if (program_.source) {
      out_ += ", line " + std::to_string(position_of(*program_.source, s.span.begin).line);
    }
    out_ += ": " + times(s);
    for (const ReductionCut& cut : s.cuts) {
      std::string axes;
      for (size_t a : cut.parts.axes) axes += (axes.empty() ? "" : ".") + mesh_.axes[a].name;
      out_ += ", terms divided along " + cut.index + " over " + axes;
    }
    out_ += "\n";
    for (size_t e = s.first_exchange; e < s.first_exchange + s.exchanges; ++e) {
      exchange(p_.exchanges[e]);
    }
  }

  void exchange(const ExchangeSummary& e) {
    const ExchangeCost& cost = e.cost;
    out_ += "    " + std::string(to_string(cost.kind)) + " of " + e.source + " to " + e.result;
    if (cost.messages != 0) {
      out_ += ": " + std::to_string(cost.bytes) + " bytes in " + std::to_string(cost.messages) +
              " messages, at most " + std::to_string(cost.busiest) + " bytes at a rank, about " +
              number(cost.ns / 1000) + " us";
    }
    out_ += "\n";
  }

  void total() {
    int64_t bytes = 0;
    double ns = 0;
    for (const ExchangeSummary& e : p_.exchanges) {
      bytes = checked_add(bytes, e.cost.bytes);
      ns += e.cost.ns;
    }
    out_ += std::to_string(p_.exchanges.size()) + " exchanges, " + std::to_string(bytes) +
            " bytes, about " + number(ns / 1000) + " us\n";
  }

  const BoundProgram& program_;
  const PartitionedProgram& p_;
  const Mesh& mesh_;
  std::string out_;
};

}  // namespace

std::string explain(const BoundProgram& program, const PartitionedProgram& partitioned) {
  return Teller(program, partitioned).run();
}

}  // namespace tile
