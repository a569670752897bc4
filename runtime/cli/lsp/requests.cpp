// What editors ask about a text.
#include <algorithm>
#include <set>

#include "runtime/cli/format/format.h"
#include "runtime/cli/lsp/server.h"
#include "runtime/cli/lsp/words.h"

namespace tile::lsp {
namespace {

const char* name_of(NameKind kind) {
  switch (kind) {
    case NameKind::tensor:
      return "tensor";
    case NameKind::dimension:
      return "dimension";
    case NameKind::function:
      return "function";
    case NameKind::value:
      return "value";
    case NameKind::parameter:
      return "parameter";
  }
  return "";
}

// CompletionItemKind of the protocol.
int completion_kind(NameKind kind) {
  constexpr int kFunction = 3, kField = 5, kVariable = 6, kUnit = 11;
  switch (kind) {
    case NameKind::tensor:
      return kVariable;
    case NameKind::dimension:
      return kUnit;
    case NameKind::function:
      return kFunction;
    case NameKind::value:
      return kVariable;
    case NameKind::parameter:
      return kField;
  }
  return kVariable;
}

// "softmax.tile" becomes "softmax.grad.tile", beside it.
std::string gradient_uri(const std::string& uri) {
  size_t dot = uri.rfind('.'), slash = uri.rfind('/');
  bool suffix = dot != uri.npos && (slash == uri.npos || dot > slash);
  return uri.substr(0, suffix ? dot : uri.size()) + ".grad.tile";
}

}  // namespace

Json Server::hover(const Json& params) const {
  const Open& open = opened(params);
  const std::string& text = open.document.text();
  std::vector<Word> words = words_of(open.language, text);
  std::optional<Word> word = name_at(words, offset(open, params));
  if (!word) return nullptr;
  std::string name(text_of(text, *word)), told;
  if (open.last_program) told = describe_tensor(*open.last_program, name);
  if (told.empty()) {
    std::vector<Declaration> all = declarations(open.language, text, words);
    std::optional<Declaration> d = declaration_of(text, all, *word);
    if (d) told = std::string(name_of(d->kind)) + " `" + name + "`";
  }
  if (told.empty()) told = describe_function(open.language, name);
  if (told.empty()) return nullptr;
  return {{"contents", {{"kind", "markdown"}, {"value", told}}},
          {"range", range(open, word->begin, word->end)}};
}

Json Server::completion(const Json& params) const {
  const Open& open = opened(params);
  const std::string& text = open.document.text();
  size_t at = offset(open, params);
  std::vector<Word> words = words_of(open.language, text);
  std::optional<Word> word = name_at(words, at);
  std::string prefix = word ? text.substr(word->begin, at - word->begin) : "";
  Json items = Json::array();
  std::set<std::string> seen;
  auto add = [&](const std::string& label, int kind, const std::string& detail) {
    if (label.starts_with(prefix) && seen.insert(label).second) {
      items.push_back({{"label", label}, {"kind", kind}, {"detail", detail}});
    }
  };
  constexpr int kFunction = 3, kKeyword = 14;
  for (const Declaration& d : declarations(open.language, text, words)) {
    // The name that is being written is not yet one.
    bool itself = word && d.word.begin == word->begin;
    if (!itself) add(std::string(text_of(text, d.word)), completion_kind(d.kind), name_of(d.kind));
  }
  for (const std::string& name : function_names(open.language)) add(name, kFunction, "function");
  for (const std::string& name : keywords(open.language)) add(name, kKeyword, "reserved");
  return {{"isIncomplete", false}, {"items", items}};
}

Json Server::definition(const Json& params) const {
  const Open& open = opened(params);
  const std::string& text = open.document.text();
  std::vector<Word> words = words_of(open.language, text);
  std::optional<Word> word = name_at(words, offset(open, params));
  if (!word) return nullptr;
  std::optional<Declaration> d =
      declaration_of(text, declarations(open.language, text, words), *word);
  if (!d) return nullptr;
  return {{"uri", params["textDocument"]["uri"]},
          {"range", range(open, d->word.begin, d->word.end)}};
}

// The gradient is a program of Tile. It is worked out when it is asked for: the menu is opened
// seldom, and the work is bounded.
Json Server::actions(const Json& params) const {
  const Open& open = opened(params);
  if (!open.analysis.program) return Json::array();
  std::string why, uri = params["textDocument"]["uri"];
  std::optional<std::string> gradient = gradient_text(*open.analysis.program, why);
  if (!gradient) return Json::array();
  const Program& program = *open.analysis.program;
  std::string title = "Gradient of " + program.tensors[program.outputs[0]].name;
  Json edit;
  if (creates_files_) {
    std::string to = gradient_uri(uri);
    Json nowhere = {{"start", {{"line", 0}, {"character", 0}}},
                    {"end", {{"line", 0}, {"character", 0}}}};
    edit["documentChanges"] = {
        {{"kind", "create"}, {"uri", to}, {"options", {{"overwrite", true}}}},
        {{"textDocument", {{"uri", to}, {"version", nullptr}}},
         {"edits", {{{"range", nowhere}, {"newText", *gradient}}}}}};
    title += " in a new file";
  } else if (open.language == Language::tile) {
    Json all = range(open, 0, open.document.text().size());
    edit["changes"][uri] = {{{"range", all}, {"newText", *gradient}}};
    title += " in place of the program";
  } else {
    return Json::array();
  }
  return {
      {{"title", title}, {"kind", creates_files_ ? "source" : "refactor.rewrite"}, {"edit", edit}}};
}

Json Server::formatting(const Json& params) const {
  const Open& open = opened(params);
  auto source = std::make_shared<Source>(Source{"", open.document.text()});
  std::string text = cli::formatted(open.language, source);
  if (text == source->text) return Json::array();
  return {{{"range", range(open, 0, source->text.size())}, {"newText", text}}};
}

}  // namespace tile::lsp
