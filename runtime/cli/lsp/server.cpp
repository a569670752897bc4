#include "runtime/cli/lsp/server.h"

#include <algorithm>
#include <new>

#include "runtime/cli/lsp/refused.h"
#include "tile/tile.h"

namespace tile::lsp {
namespace {

Json error_of(const Json& id, int code, const std::string& message) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}};
}

// A number that is no integer of 64 bits is no position.
int64_t integer(const Json& value) {
  constexpr uint64_t kMost = INT64_MAX;
  if (value.is_number_unsigned()) {
    return static_cast<int64_t>(std::min(value.get<uint64_t>(), kMost));
  }
  if (!value.is_number_integer()) throw Refused(kInvalidParams, "a position is two integers");
  return value.get<int64_t>();
}
Position position_of(const Json& p) { return {integer(p.at("line")), integer(p.at("character"))}; }

// A brace more than this inside another makes a message nobody sends; destroying such values is
// iterative, but looking into them need not be tried.
constexpr int kMostDepth = 64;
bool is_deep(const std::string& text) {
  int depth = 0;
  bool string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (string && c == '\\') ++i;
    if (c == '"') string = !string;
    if (string) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kMostDepth) return true;
  }
  return false;
}

}  // namespace

std::vector<Json> Server::receive(const std::string& text) {
  out_.clear();
  Json message;
  if (!is_deep(text)) message = Json::parse(text, nullptr, false);
  if (is_deep(text) || message.is_discarded()) {
    out_.push_back(error_of(nullptr, kParseError, "the message is no JSON"));
    return std::move(out_);
  }
  Json id = message.is_object() && message.contains("id") ? message["id"] : Json();
  bool named = message.is_object() && message.contains("method") && message["method"].is_string();
  if (!named) {
    bool response =
        message.is_object() && (message.contains("result") || message.contains("error"));
    if (!response) out_.push_back(error_of(id, kInvalidRequest, "a message without a method"));
    return std::move(out_);
  }
  try {
    handle(message);
  } catch (const Refused& e) {
    if (!id.is_null()) out_.push_back(error_of(id, e.code, e.message));
  } catch (const Json::exception& e) {  // a part is missing, or is of another type
    if (!id.is_null()) out_.push_back(error_of(id, kInvalidParams, e.what()));
  } catch (const Failure& e) {
    if (!id.is_null()) out_.push_back(error_of(id, kRequestFailed, e.what()));
  } catch (const std::exception& e) {
    if (!id.is_null()) out_.push_back(error_of(id, kInternalError, e.what()));
  }
  return std::move(out_);
}

void Server::handle(const Json& message) {
  std::string method = message["method"];
  Json params = message.value("params", Json::object());
  if (!message.contains("id")) return notify(method, params);
  if (!initialized_ && method != "initialize") {
    throw Refused(kNotInitialized, "the first request is initialize");
  }
  if (shut_) throw Refused(kInvalidRequest, "the server is shut down");
  Json result = answer(method, params);
  out_.push_back({{"jsonrpc", "2.0"}, {"id", message["id"]}, {"result", result}});
}

Json Server::answer(const std::string& method, const Json& params) {
  if (method == "initialize") return initialize(params);
  if (method == "textDocument/hover") return hover(params);
  if (method == "textDocument/completion") return completion(params);
  if (method == "textDocument/definition") return definition(params);
  if (method == "textDocument/references") return references(params);
  if (method == "textDocument/documentHighlight") return highlights(params);
  if (method == "textDocument/prepareRename") return prepare_rename(params);
  if (method == "textDocument/rename") return rename(params);
  if (method == "textDocument/codeAction") return actions(params);
  if (method == "textDocument/formatting") return formatting(params);
  if (method == "shutdown") {
    shut_ = true;
    return nullptr;
  }
  throw Refused(kMethodNotFound, "there is no method " + method.substr(0, 100));
}

void Server::notify(const std::string& method, const Json& params) {
  if (method == "exit") {
    exit_ = shut_ ? 0 : 1;
  } else if (!initialized_ || shut_) {
    return;
  } else if (method == "textDocument/didOpen") {
    open(params);
  } else if (method == "textDocument/didChange") {
    change(params);
  } else if (method == "textDocument/didClose") {
    close(params);
  }
}

// A client that says nothing of itself, or null, has the protocol's least.
Json Server::initialize(const Json& params) {
  if (initialized_) throw Refused(kInvalidRequest, "the server is initialized already");
  if (!params.is_object() && !params.is_null()) {
    throw Refused(kInvalidParams, "the parameters of initialize are an object");
  }
  initialized_ = true;
  Json client = params.is_object() ? params.value("capabilities", Json()) : Json();
  if (!client.is_object()) client = Json::object();
  auto list = [&](const char* path) {
    try {
      Json found = client.at(Json::json_pointer(path));
      return found.is_array() ? found : Json::array();
    } catch (const Json::exception&) {  // nothing there, or something else on the way to it
      return Json::array();
    }
  };
  auto holds = [](const Json& all, const char* word) {
    return std::find(all.begin(), all.end(), Json(word)) != all.end();
  };
  if (holds(list("/general/positionEncodings"), "utf-8")) encoding_ = Encoding::utf8;
  creates_files_ = holds(list("/workspace/workspaceEdit/resourceOperations"), "create");
  constexpr int kIncremental = 2;
  std::string version = std::to_string(TILE_VERSION_MAJOR) + "." +
                        std::to_string(TILE_VERSION_MINOR) + "." +
                        std::to_string(TILE_VERSION_PATCH);
  return {{"serverInfo", {{"name", "tile"}, {"version", version}}},
          {"capabilities",
           {{"positionEncoding", encoding_ == Encoding::utf8 ? "utf-8" : "utf-16"},
            {"textDocumentSync", {{"openClose", true}, {"change", kIncremental}}},
            {"hoverProvider", true},
            {"definitionProvider", true},
            {"referencesProvider", true},
            {"documentHighlightProvider", true},
            {"renameProvider", {{"prepareProvider", true}}},
            {"documentFormattingProvider", true},
            {"completionProvider", {{"resolveProvider", false}}},
            {"codeActionProvider", {{"codeActionKinds", {"source", "refactor.rewrite"}}}}}}};
}

void Server::keep(const std::string& uri, Open open) {
  size_t bytes = open.document.text().size();
  for (const auto& [other, kept] : open_) bytes += other == uri ? 0 : kept.document.text().size();
  if (bytes > kMostKeptBytes || (!open_.contains(uri) && open_.size() >= kMostDocuments)) {
    open_.erase(uri);
    throw Refused(kRequestFailed, "too many texts are open");
  }
  open.analysis = analyse(open.language, uri, open.document.text());
  if (open.analysis.program) open.last_program = open.analysis.program;
  Open& kept = open_.insert_or_assign(uri, std::move(open)).first->second;
  publish(uri, kept);
}

void Server::open(const Json& params) {
  const Json& item = params.at("textDocument");
  std::string uri = item.at("uri");
  std::optional<Language> language = parse_language(item.value("languageId", ""));
  if (!language) language = language_of_suffix(uri);
  if (!language) return;  // of another language: nothing is known of it
  keep(uri, {Document(item.at("text").get<std::string>()), *language, {}, nullptr});
}

void Server::change(const Json& params) {
  std::string uri = params.at("textDocument").at("uri");
  auto at = open_.find(uri);
  if (at == open_.end()) return;
  Open next{Document(at->second.document.text()), at->second.language, {}, at->second.last_program};
  for (const Json& part : params.at("contentChanges")) {
    std::string text = part.at("text");
    if (!part.contains("range")) {
      next.document.set(std::move(text));
      continue;
    }
    const Json& range = part["range"];
    Range replaced{position_of(range.at("start")), position_of(range.at("end"))};
    next.document.replace(replaced, text, encoding_);
    if (next.document.text().size() > kMostKeptBytes) break;
  }
  keep(uri, std::move(next));
}

void Server::close(const Json& params) {
  std::string uri = params.at("textDocument").at("uri");
  if (open_.erase(uri) == 0) return;
  out_.push_back({{"jsonrpc", "2.0"},
                  {"method", "textDocument/publishDiagnostics"},
                  {"params", {{"uri", uri}, {"diagnostics", Json::array()}}}});
}

Json Server::range(const Open& open, size_t begin, size_t end) const {
  auto position = [&](size_t offset) -> Json {
    Position p = open.document.position_of(offset, encoding_);
    return {{"line", p.line}, {"character", p.character}};
  };
  return {{"start", position(begin)}, {"end", position(std::max(begin, end))}};
}

Json Server::diagnostic(const Open& open, const Diagnostic& d) const {
  constexpr int kError = 1, kWarning = 2;
  std::string text = d.message + (d.hint.empty() ? "" : "\n" + d.hint);
  // An error at the end of the text still has a character to be shown at.
  size_t size = open.document.text().size();
  size_t begin = std::min<size_t>(d.span.begin, size), end = std::min<size_t>(d.span.end, size);
  if (end <= begin) end = std::min(begin + 1, size);
  if (end <= begin && begin > 0) --begin;
  return {{"range", range(open, begin, end)},
          {"severity", d.severity == Severity::warning ? kWarning : kError},
          {"code", d.code},
          {"source", "tile"},
          {"message", text}};
}

void Server::publish(const std::string& uri, const Open& open) {
  Json list = Json::array();
  for (const Diagnostic& d : open.analysis.diagnostics) list.push_back(diagnostic(open, d));
  out_.push_back({{"jsonrpc", "2.0"},
                  {"method", "textDocument/publishDiagnostics"},
                  {"params", {{"uri", uri}, {"diagnostics", list}}}});
}

const Server::Open& Server::opened(const Json& params) const {
  auto at = open_.find(params.at("textDocument").at("uri").get<std::string>());
  if (at == open_.end()) throw Refused(kInvalidParams, "the text is not open");
  return at->second;
}

size_t Server::offset(const Open& open, const Json& params) const {
  return open.document.offset_of(position_of(params.at("position")), encoding_);
}

}  // namespace tile::lsp
