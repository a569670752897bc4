// The names that a program text declares (rules 1.1 and 2.3).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/program.h"
#include "core/language/tile/syntax.h"

namespace tile {

struct Symbol {
  enum class Kind : uint8_t { input, assigned, dimension };
  Kind kind = Kind::input;
  TensorId tensor;
  int rank = -1;  // of tensors whose rank the text declares, else -1
  Span span;
};

// Tensors and dimensions by name. All failures are of stage parse, code "name".
class Names {
 public:
  // `statements` are those of the text: names that are assigned later explain a use before
  // definition, and generated names avoid them.
  Names(const Source& source, const std::vector<StatementSyntax>& statements);

  // A dimension may be declared several times.
  void declare_dimension(std::string_view name, Span span);
  // Fails if the name is taken.
  void declare_tensor(std::string_view name, Symbol symbol);

  const Symbol& tensor(std::string_view name, Span span) const;
  void require_dimension(std::string_view name, Span span) const;
  const Symbol* find(std::string_view name) const;
  [[noreturn]] void fail_undefined(std::string_view name, Span span, std::string_view what) const;

  // A legal name that the text does not use: BASE_1, BASE_2, …
  std::string fresh(std::string_view base);

 private:
  std::string place(Span span) const;  // "line 3, column 5"

  const Source& source_;
  std::map<std::string, Symbol, std::less<>> symbols_;
  std::map<std::string_view, Span> assigned_;
  std::map<std::string, int, std::less<>> generated_;  // the last number used with a base
};

}  // namespace tile
