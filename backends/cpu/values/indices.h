// Index expressions during emission: linear forms over atoms, so that constants of unrolled loops
// end up in addresses' displacements, each loop adds its own term once, and a vector loop's stride
// is seen. An atom is a loop variable or parameter, the lane number of a vector loop, or a
// non-linear expression.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/values/scopes.h"
#include "core/simplify/expr.h"
#include "core/support/id.h"

namespace tile::cpu {

// sum of factor * atom, plus constant; terms sorted by atom, no factor is zero.
using AtomId = Id<struct AtomTag>;
struct Form {
  std::vector<std::pair<AtomId, int64_t>> terms;
  int64_t constant = 0;
  bool is_constant() const { return terms.empty(); }
  friend bool operator==(const Form&, const Form&) = default;
};
Form operator+(const Form& a, const Form& b);
Form operator*(const Form& a, int64_t factor);
void append(Key& key, const Form& f);
inline Form operator-(const Form& a, const Form& b) { return a + b * -1; }

class Indices {
 public:
  Indices(llvm::IRBuilderBase& ir, Scopes& scopes) : ir_(ir), scopes_(scopes) {}

  // Names for loop variables and parameters.
  void bind(const std::string& name, Form form) { bindings_[name] = std::move(form); }
  void unbind(const std::string& name) { bindings_.erase(name); }
  bool is_bound(const std::string& name) const { return bindings_.contains(name); }
  // A new variable with a value known in the current scope and inside it: i64, or a vector of it.
  // `positive`: wherever it is used, a division by it needs no care.
  Form variable(llvm::Value* value, bool positive = false);
  // The lane number, 0 … width - 1.
  Form lane(unsigned width);

  Form form(const Expr& e);
  bool uses_lanes(const Form& f) const;
  // Splits off the lane number's factor; nullopt where lanes occur in any other way.
  struct Strided {
    Form uniform;
    int64_t stride = 0;
  };
  std::optional<Strided> strided(const Form& f) const;
  // Splits off what each lane adds, where that is known: nullopt where it depends on more than the
  // lane's number.
  struct Pattern {
    Form uniform;
    std::vector<int64_t> offsets;  // one for each lane
  };
  std::optional<Pattern> pattern(const Form& f, unsigned width) const;

  // The value as an i64, a vector of them where it uses lanes.
  llvm::Value* value(const Form& f, unsigned width);
  // base + scale * f bytes, for a form without lanes; base must be valid in the whole function.
  llvm::Value* pointer(llvm::Value* base, const Form& f, int64_t scale);

 private:
  struct Atom {
    llvm::Value* value = nullptr;  // of a variable
    ExprKind kind = ExprKind::constant;
    std::vector<Form> args;  // of a non-linear expression
    size_t scope = 0;        // the innermost scope of its variables
    bool lanes = false;
    bool positive = false;
    unsigned lane_width = 0;  // of a lane number
  };

  Form product(const std::vector<Form>& factors);
  Form quotient(ExprKind kind, const std::vector<Form>& args);
  Form compound(ExprKind kind, std::vector<Form> args);
  const Atom& atom(AtomId id) const { return atoms_[id]; }
  size_t scope_of(const Form& f) const;
  bool positive_divisor(const Atom& quotient) const;
  llvm::Value* prefix(llvm::Value* base, const Form& f, int64_t scale);
  llvm::Value* extended(llvm::Value* sum, llvm::Value* base, const std::pair<AtomId, int64_t>& term,
                        int64_t scale);
  llvm::Value* atom_value(AtomId id, unsigned width);
  llvm::Value* lane_sum(const Form& f, unsigned width);
  std::optional<int64_t> at_lane(const Form& f, int64_t lane) const;

  llvm::IRBuilderBase& ir_;
  Scopes& scopes_;
  IdVector<AtomId, Atom> atoms_;
  std::map<Key, AtomId> compounds_;
  std::map<unsigned, AtomId> lanes_;
  std::map<std::string, Form, std::less<>> bindings_;
};

// The operation of a non-linear index expression on i64 operands; nothing traps. `positive`: the
// divisor is.
llvm::Value* emit_index_operation(llvm::IRBuilderBase& ir, ExprKind kind,
                                  const std::vector<llvm::Value*>& args, bool positive = false);

}  // namespace tile::cpu
