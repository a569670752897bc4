// What completion and hovering know of functions: the languages' own tables.
#include <algorithm>
#include <string>

#include "core/ir/operation.h"
#include "core/language/lift/evaluator.h"
#include "core/language/mfg/builtin_names.h"
#include "core/language/tile/casts.h"
#include "runtime/cli/lsp/words.h"

namespace tile::lsp {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() &&
         ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z'));
}

// Operations whose spelling in programs is a name; those of nests alone are none.
std::vector<const OpInfo*> scalar_functions() {
  std::vector<const OpInfo*> all;
  for (const OpInfo& row : operations()) {
    bool spelled = is_name(row.spelling) && row.rule != TypeRule::packed;
    if (spelled && find_function(row.spelling) == row.op) all.push_back(&row);
  }
  return all;
}

std::vector<lift::Pattern> patterns() {
  std::vector<lift::Pattern> all;
  for (const auto& list : {lift::layout_patterns(), lift::window_patterns(), lift::tuple_patterns(),
                           lift::compute_patterns()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

std::string arguments(int count) {
  return std::to_string(count) + (count == 1 ? " argument" : " arguments");
}

std::string describe_scalar(std::string_view name) {
  std::optional<Op> op = find_function(name);
  if (!op || info(*op).rule == TypeRule::packed) return "";
  const OpInfo& row = info(*op);
  std::string text = "`" + std::string(name) + "`: a scalar function of " + arguments(row.arity);
  const char* const names[] = {"X", "Y", "Z"};
  for (size_t i = 0; i < row.derivatives.size() && i < 3; ++i) {
    if (row.derivatives[i].empty()) continue;
    text += "\n\nd/d" + std::string(names[i]) + " = `" + std::string(row.derivatives[i]) + "`";
  }
  return text;
}

}  // namespace

std::vector<std::string> function_names(Language language) {
  std::vector<std::string> names;
  if (language == Language::mfg) {
    for (std::string_view name : mfg::builtin_functions()) names.emplace_back(name);
    return names;
  }
  for (const OpInfo* row : scalar_functions()) names.emplace_back(row->spelling);
  if (language == Language::tile) {
    for (Function f : whole_tensor_functions()) names.emplace_back(to_string(f));
    for (std::string_view cast : cast_functions()) names.emplace_back(cast);
  } else {
    for (const lift::Pattern& p : patterns()) names.emplace_back(p.name);
    for (const char* own : {"fun", "ArrayType", "add", "mult", "id", "toFloat", "toInt"}) {
      names.emplace_back(own);
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string> keywords(Language language) {
  if (language == Language::mfg) return {"let", "def", "fn", "by", "mut!"};
  if (language == Language::lift) return {"val", "Float", "Int"};
  return {"function", "default", "no_defract", "let", "in"};
}

std::string describe_function(Language language, std::string_view name) {
  if (language == Language::tile && find_whole_tensor_function(name)) {
    return "`" + std::string(name) + "`: a function of whole tensors (reference, rule 6.4)";
  }
  if (language == Language::lift) {
    if (const lift::Pattern* p = lift::find_pattern(name)) {
      std::string count = std::to_string(p->least);
      if (p->most != p->least) count += " to " + std::to_string(p->most);
      return "`" + std::string(name) + "`: a pattern with " + count + " parameters";
    }
  }
  if (language == Language::mfg) {
    std::vector<std::string> all = function_names(language);
    if (std::find(all.begin(), all.end(), name) == all.end()) return "";
    std::string scalar = describe_scalar(name);
    return scalar.empty() ? "`" + std::string(name) + "`: built into MFG" : scalar;
  }
  return describe_scalar(name);
}

}  // namespace tile::lsp
