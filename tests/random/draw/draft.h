// A random program under construction: inputs with values, statements, and what is known of every
// tensor.
#pragma once

#include <string>
#include <vector>

#include "tests/random/random_program.h"
#include "tests/random/random_source.h"

namespace tile::test {

// The draft cannot become a program; another one is drawn.
struct Redraw {};

struct Known {
  std::string name;
  DType type = DType::f32;
  Shape shape;
  double bound = 0;     // no element is larger in size
  bool powers = false;  // every element is +-1 or +-2, so that products are exact
};

class Draft {
 public:
  Draft(RandomSource& random_source, const RandomOptions& random_options)
      : random(random_source), options(random_options) {
    result.exact = !options.real_values;
  }

  RandomSource& random;
  RandomOptions options;
  RandomCase result;

  Known input(DType type, const Shape& shape, bool powers = false);
  // Adds "NAME = EXPRESSION;" or a contraction's text; binds it to learn its type and shape.
  Known assign(const std::string& name, const std::string& statement, double bound);
  std::string fresh() { return "T" + std::to_string(next_++); }
  std::string dimension(const Known& tensor, size_t axis) const;  // its name, or the number
  DType another_type(DType type);                                 // mostly the same one
  void feature(const std::string& name) { result.features.insert(name); }
  // Sums and products of integers up to `bound` must fit the type's digits to stay exact.
  void note_bound(DType type, double bound);
  void inexact() { result.exact = false; }
  // Comparisons of values that rounding may move have no tolerance.
  bool may_compare() const { return result.exact; }

  // The text with these outputs; also into result.text.
  std::string program(const std::vector<std::string>& outputs);

 private:
  Scalar value(DType type, bool powers);
  std::string declarations_, statements_;
  std::vector<std::pair<std::string, size_t>> declared_;  // inputs whose dimensions have names
  int next_ = 0;
};

// One contraction over fresh inputs (and `from`, if given); returns its result.
Known draw_contraction(Draft& draft, DType type, const Known* from);
// An elementwise statement on x and perhaps fresh inputs.
Known draw_elementwise(Draft& draft, const Known& x);
// A whole-tensor call on x.
Known draw_call(Draft& draft, const Known& x);

}  // namespace tile::test
