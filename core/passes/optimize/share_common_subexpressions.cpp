#include <algorithm>
#include <map>
#include <vector>

#include "core/ir/analysis/uses.h"
#include "core/ir/text.h"
#include "core/passes/optimize/optimize.h"

namespace tile {
namespace {

std::string text(const Affine& form) {
  std::string out;
  for (const Rational& c : form.coefficients) out += to_string(c) + ",";
  while (out.size() >= 2 && out.ends_with("0,")) {
    // Trailing zeros do not count: "10," is a coefficient, "…,0," is not.
    if (out.size() > 2 && out[out.size() - 3] != ',') break;
    out.resize(out.size() - 2);
  }
  return out + "+" + to_string(form.constant);
}

std::string text(const Access& access) {
  std::string out = "@" + to_string(access.tensor) + "[";
  for (const Index& index : access.index) {
    out += text(index.affine) + "/" + std::to_string(index.value) + "/" +
           std::to_string(static_cast<int>(index.boundary)) + ";";
  }
  return out + "]";
}

// What a contraction computes, without its name, its place in the text and its iterators' names.
// The result's type and shape belong to it.
std::string fingerprint(const BoundProgram& program, const Contraction& c) {
  std::string out(to_string(c.aggregation));
  out += " " + std::string(to_string(c.accumulator));
  for (TensorId id : c.outputs) {
    const BoundTensor& t = program.tensors[id];
    // Which outputs are parts of one tensor.
    auto part = std::find(c.outputs.begin(), c.outputs.end(), id) - c.outputs.begin();
    out += " " + std::string(to_string(t.type)) + print_integers(t.shape) + std::to_string(part);
  }
  if (c.fill) out += " fill " + to_string(*c.fill);
  for (const Piece& piece : c.pieces) {
    out += "\n" + std::to_string(piece.iterators.size()) + print_integers(piece.box) +
           std::to_string(piece.parallel_dims);
    for (const Constraint& k : piece.constraints) {
      out += "{" + text(k.form) + " " + std::to_string(k.lo) + " " + std::to_string(k.hi) +
             (k.integral ? "z}" : "}");
    }
    // Outputs differ between equal statements; their index forms do not.
    for (Access store : piece.stores) {
      store.tensor = TensorId(0);
      out += text(store);
    }
    for (const Access& load : piece.loads) out += text(load);
    out += print(piece.body);
  }
  return out;
}

// Numbers of a contraction that are the same where fingerprints are, whatever is renamed meanwhile.
std::vector<int64_t> outline(const BoundProgram& program, const Contraction& c) {
  const BoundTensor& made = program.tensors[c.outputs[0]];
  std::vector<int64_t> numbers{static_cast<int64_t>(c.aggregation),
                               static_cast<int64_t>(made.type)};
  auto put = [&](const std::vector<int64_t>& list) {
    numbers.push_back(static_cast<int64_t>(list.size()));
    numbers.insert(numbers.end(), list.begin(), list.end());
  };
  put(made.shape);
  for (const Piece& piece : c.pieces) {
    put(piece.box);
    numbers.push_back(static_cast<int64_t>(piece.constraints.size()));
    numbers.push_back(static_cast<int64_t>(piece.loads.size()));
  }
  return numbers;
}

// How many contractions have an outline: of those that are alone no text is made.
std::map<std::vector<int64_t>, int> outlines(const BoundProgram& program) {
  std::map<std::vector<int64_t>, int> counts;
  for (const BoundStatement& statement : program.statements) {
    if (const auto* c = std::get_if<Contraction>(&statement)) ++counts[outline(program, *c)];
  }
  return counts;
}

void rename_reads(BoundStatement& statement, const std::map<TensorId, TensorId>& same) {
  auto renamed = [&](TensorId& id) {
    auto it = same.find(id);
    if (it != same.end()) id = it->second;
  };
  if (Contraction* c = std::get_if<Contraction>(&statement)) {
    if (c->fill) renamed(*c->fill);
    for (Piece& piece : c->pieces) {
      for (Access& a : piece.loads) renamed(a.tensor);
    }
  } else if (Sort* s = std::get_if<Sort>(&statement)) {
    renamed(s->source);
  } else if (Scatter* s2 = std::get_if<Scatter>(&statement)) {
    renamed(s2->updates);
    renamed(s2->indices);
  } else if (BoundRepeat* r = std::get_if<BoundRepeat>(&statement)) {
    for (TensorId& id : r->operands) renamed(id);
  }
}

bool is_output(const BoundProgram& program, TensorId id) {
  for (TensorId output : program.outputs) {
    if (storage_of(program, output) == id) return true;
  }
  return false;
}

}  // namespace

void share_common_subexpressions(BoundProgram& program, const Target&) {
  std::map<std::vector<int64_t>, int> alike = outlines(program);
  std::map<std::string, std::vector<TensorId>> seen;
  std::map<TensorId, TensorId> same;
  std::erase_if(program.statements, [&](BoundStatement& statement) {
    rename_reads(statement, same);
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr) return false;
    for (Piece& piece : c->pieces) piece.body = tidied(piece.body);
    if (alike.at(outline(program, *c)) == 1) return false;
    auto [it, first] = seen.try_emplace(fingerprint(program, *c), c->outputs);
    bool returned = std::any_of(c->outputs.begin(), c->outputs.end(),
                                [&](TensorId id) { return is_output(program, id); });
    if (first || returned) return false;
    for (size_t o = 0; o < c->outputs.size(); ++o) same[c->outputs[o]] = it->second[o];
    return true;
  });
  for (BoundTensor& t : program.tensors) {
    if (!t.view_of) continue;
    auto it = same.find(*t.view_of);
    if (it != same.end()) t.view_of = it->second;
  }
}

}  // namespace tile
