// What editors ask about all places of a name.
#include <algorithm>

#include "runtime/cli/lsp/refused.h"
#include "runtime/cli/lsp/server.h"
#include "runtime/cli/lsp/uses.h"

namespace tile::lsp {
namespace {

bool is_declared(const Uses& uses, const Word& word) {
  return std::any_of(uses.declared.begin(), uses.declared.end(),
                     [&](const Word& d) { return d.begin == word.begin; });
}

}  // namespace

std::optional<Uses> Server::uses(const Open& open, const Json& params) const {
  return uses_at(open.language, open.document.text(), offset(open, params));
}

Json Server::references(const Json& params) const {
  const Open& open = opened(params);
  Json list = Json::array();
  std::optional<Uses> found = uses(open, params);
  if (!found) return list;
  Json context = params.value("context", Json::object());
  bool all = context.value("includeDeclaration", true);
  for (const Word& w : found->words) {
    if (!all && is_declared(*found, w)) continue;
    list.push_back(
        {{"uri", params["textDocument"]["uri"]}, {"range", range(open, w.begin, w.end)}});
  }
  return list;
}

Json Server::highlights(const Json& params) const {
  constexpr int kRead = 2, kWrite = 3;
  const Open& open = opened(params);
  Json list = Json::array();
  std::optional<Uses> found = uses(open, params);
  if (!found) return list;
  for (const Word& w : found->words) {
    list.push_back({{"range", range(open, w.begin, w.end)},
                    {"kind", is_declared(*found, w) ? kWrite : kRead}});
  }
  return list;
}

Json Server::prepare_rename(const Json& params) const {
  const Open& open = opened(params);
  std::optional<Uses> found = uses(open, params);
  if (!found) return nullptr;
  return {{"range", range(open, found->asked.begin, found->asked.end)},
          {"placeholder", found->name}};
}

// Names are found by words: whether the text means the same afterwards, the compiler tells.
Json Server::rename(const Json& params) const {
  const Open& open = opened(params);
  const std::string &text = open.document.text(), uri = params["textDocument"]["uri"];
  std::string name = params.at("newName");
  std::optional<Uses> found = uses(open, params);
  if (!found) throw Refused(kRequestFailed, "there is no name of the program's own");
  std::string fault = fault_of_name(open.language, text, *found, name);
  if (!fault.empty()) throw Refused(kRequestFailed, fault);
  if (!open.analysis.program) {
    throw Refused(kRequestFailed, "the text has an error: mend it first");
  }
  Analysis then = analyse(open.language, uri, renamed(text, *found, name));
  if (!then.program) {
    bool told = !then.diagnostics.empty();
    throw Refused(kRequestFailed, told ? then.diagnostics[0].message : "the name does not fit");
  }
  if (!same_but_for_names(*open.analysis.program, *then.program)) {
    throw Refused(kRequestFailed, "with " + name + " the program would mean something else");
  }
  Json edits = Json::array();
  for (const Word& w : found->words) {
    edits.push_back({{"range", range(open, w.begin, w.end)}, {"newText", name}});
  }
  Json edit;
  edit["changes"][uri] = edits;
  return edit;
}

}  // namespace tile::lsp
