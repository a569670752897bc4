// Whole Tile programs as data: inputs with values, statements, outputs and what is differentiated,
// over dimension names whose sizes may be changed. Random ones (random_whole.h) are drawn, made
// smaller (shrink.h) and printed in this form.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/ir/scalar.h"
#include "tests/random/random_program.h"

namespace tile::test {

// Sizes by dimension name.
using Sizes = std::map<std::string, int64_t, std::less<>>;

struct WholeInput {
  std::string name;
  DType type = DType::f32;
  // One for each dimension: a dimension name, which the program then declares, or a size
  // expression over them.
  std::vector<std::string> dims;
  HostTensor values;
};

struct WholeStatement {
  std::string result;
  std::string text;               // "T3[i: N0] = +(T1[i, j])"
  std::vector<std::string> dims;  // of the result
  bool exact = true;              // every order of aggregation gives the same bits
};

// What is differentiated with respect to what; several follow each other.
struct WholeGradient {
  std::string of;
  std::vector<std::string> wrt;
};

struct WholeProgram {
  Sizes sizes;
  std::vector<WholeInput> inputs;
  std::vector<WholeStatement> statements;
  std::vector<std::string> outputs;
  std::vector<WholeGradient> gradients;
  bool special = false;  // NaN or infinities among the inputs

  const WholeInput* input(const std::string& name) const;
  const WholeStatement* statement(const std::string& name) const;
};

// The program without its gradients. Dimension names that no input declares are numbers.
std::string text_of(const WholeProgram& program);

// The names of tensors, dimensions and indices in a text.
std::vector<std::string> words_of(const std::string& text);
// The text with these words replaced.
std::string with_words(const std::string& text, const std::map<std::string, std::string>& words);

// A size expression's value; nullopt: none.
std::optional<int64_t> size_of(const std::string& dim, const Sizes& sizes);
// The program at other sizes: inputs keep their values where they had some, and repeat them beyond.
// Throws Failure where an input would have no size.
WholeProgram resized(const WholeProgram& program, const Sizes& sizes);

// What runs: the text with its gradients, and values for all its inputs, seeds of gradients
// included.
struct WholeCase {
  RandomCase drawn;  // `exact` where all outputs are
  std::shared_ptr<const Program> program;
  std::vector<std::string> names;  // of the inputs
  std::vector<bool> exact;         // for each output
};
// Throws Failure if the program is none.
WholeCase case_of(const WholeProgram& program);
// The case of a program without gradients, of any language; nothing of it is exact.
WholeCase case_of(Program program, std::vector<HostTensor> inputs);
// Differentiates the case's program; the new seed is an input of small whole numbers.
void differentiate(WholeCase& c, const WholeGradient& gradient);

}  // namespace tile::test
