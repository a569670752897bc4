#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <vector>

#include "core/ir/analysis/uses.h"
#include "core/ir/text.h"
#include "core/passes/optimize/optimize.h"
#include "core/passes/optimize/rename_reads.h"

namespace tile {
namespace {

void append(std::string& out, int64_t number) {
  std::array<char, 24> digits{};  // of 64 bits, with a sign
  auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end.ptr);
}

void append(std::string& out, const Rational& value) {
  append(out, value.num());
  if (value.is_integer()) return;
  out += '/';
  append(out, value.den());
}

// Trailing zeros do not count.
void append(std::string& out, const Affine& form) {
  size_t count = form.coefficients.size();
  while (count > 0 && form.coefficients[count - 1].is_zero()) --count;
  for (size_t i = 0; i < count; ++i) {
    append(out, form.coefficients[i]);
    out += ',';
  }
  out += '+';
  append(out, form.constant);
}

void append(std::string& out, TensorId tensor, const std::vector<Index>& place) {
  out += '@';
  append(out, int64_t{tensor.number()});
  out += '[';
  for (const Index& index : place) {
    append(out, index.affine);
    out += '/';
    append(out, int64_t{index.value});
    out += '/';
    append(out, static_cast<int64_t>(index.boundary));
    out += ';';
  }
  out += ']';
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
      out += '{';
      append(out, k.form);
      out += ' ';
      append(out, k.lo);
      out += ' ';
      append(out, k.hi);
      out += k.integral ? "z}" : "}";
    }
    // Outputs differ between equal statements; their index forms do not.
    for (const Access& store : piece.stores) append(out, TensorId(0), store.index);
    for (const Access& load : piece.loads) append(out, load.tensor, load.index);
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
  rename_views(program, same);
}

}  // namespace tile
