// A whole program under construction: tensors with the values that the reference interpreter gives
// them, and statements that are checked as they are added.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "tests/random/draw/draft.h"
#include "tests/random/random_source.h"
#include "tests/random/whole_program.h"

namespace tile::test {

// A tensor of the program, and what is known of its values.
struct Made {
  std::string name;
  DType type = DType::f32;
  std::vector<std::string> dims;
  HostTensor values;
  double bound = 0;   // no element is larger in size
  double unit = 1;    // every element is a multiple of it, a power of two
  bool exact = true;  // every order of aggregation gives the same bits

  size_t rank() const { return dims.size(); }
};

// A scalar expression in a statement's body: its text, and the same for its values.
struct Term {
  std::string text;
  double bound = 0;
  double unit = 1;
  bool exact = true;
  bool simple = true;  // needs no parentheses
};

struct WholeOptions {
  bool real_values = false;  // inputs are reals: almost nothing is exact
  bool inexact = false;      // functions such as exp are drawn
  bool special = false;      // NaN and infinities among the inputs
  bool floats = false;       // of f32 and f64 only: to be differentiated
  int64_t elements = 3000;   // of a tensor
  int64_t points = 40000;    // of a statement
};

class CompilerContext {
 public:
  CompilerContext(RandomSource& random_source, const WholeOptions& drawing);

  RandomSource& random;
  WholeOptions options;
  WholeProgram program;

  // A tensor made so far that fits; Redraw if there is none. Later ones are likelier.
  const Made& pick(const std::function<bool(const Made&)>& fits);
  const Made& pick() {
    return pick([](const Made&) { return true; });
  }
  const std::deque<Made>& made() const { return made_; }
  int64_t size(const std::string& dim) const;
  std::string any_dim();  // a dimension name
  DType any_type();       // of inputs, those of the program's family mostly

  // A new input.
  const Made& input(DType type, const std::vector<std::string>& dims);
  const Made& integers(const std::vector<std::string>& dims, int64_t least, int64_t most);
  // A new statement "NAME" + text, e.g. " = exp(T1)"; `what` tells of its values as far as that
  // takes the statement, and is exact only if the sums fit the type's digits. Redraw if it does not
  // bind, is too large or too much work, or loses its values to overflow.
  const Made& assign(const std::string& text, const std::vector<std::string>& dims,
                     const Term& what);

  // A mark to return to when a statement cannot be drawn.
  struct Mark {
    size_t inputs, statements, made;
  };
  Mark mark() const;
  void back_to(const Mark& mark);

 private:
  Scalar element(DType type);
  void choose_sizes();
  HostTensor evaluated(const WholeStatement& statement, HostTensor& magnitudes) const;
  std::deque<Made> made_;           // references stay
  std::vector<std::string> names_;  // of dimensions
  DType family_ = DType::f32;
  int next_ = 0;
};

// One statement, or several that belong together, on tensors made so far and perhaps new inputs.
void draw_cells(CompilerContext& shop);    // elementwise
void draw_sums(CompilerContext& shop);     // a contraction of products, statistics, …
void draw_windows(CompilerContext& shop);  // convolutions, pools, scans, masks, rational indices
void draw_whole_tensor(CompilerContext& shop);  // reshape, gather, sort, …
void draw_chain(
    CompilerContext& shop);  // softmax, norms, attention, recurrent cells, with variations

// A scalar expression over the leaves.
Term draw_term(CompilerContext& shop, const std::vector<Term>& leaves);
Term leaf_of(const Made& tensor, const std::string& text);

Term sum_of(const Term& a, const Term& b, const char* sign = " + ");
Term product_of(const Term& a, const Term& b);
Term call_of(const std::string& function, const Term& a, double bound, bool exact = false);

}  // namespace tile::test
