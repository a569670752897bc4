// A Language Server (Language Server Protocol 3.17) for the three languages: diagnostics, hover,
// completion, definitions, references, renaming, formatting, and gradients as a code action.
//
// It trusts nobody: a message of any content gets an answer or none, work for each message is
// bounded, and so is what it keeps.
#pragma once

#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/cli/lsp/analysis.h"
#include "runtime/cli/lsp/document.h"
#include "runtime/cli/lsp/uses.h"

namespace tile::lsp {

using Json = nlohmann::json;

constexpr size_t kMostMessageBytes = size_t{16} << 20;  // a text has 4 MiB, escaped some more
constexpr size_t kMostDocuments = 1000;
constexpr size_t kMostKeptBytes = size_t{256} << 20;  // of all open texts

class Server {
 public:
  // What is to be sent after a message: answers and notifications, in order.
  std::vector<Json> receive(const std::string& message);
  // Set once the client has sent `exit`: the process's status.
  std::optional<int> exit_status() const { return exit_; }

 private:
  struct Open {
    Document document;
    Language language = Language::tile;
    Analysis analysis;
    std::shared_ptr<const Program> last_program;  // of the last text that was a program
  };
  // Of one message that is a JSON object with a method.
  void handle(const Json& message);
  Json answer(const std::string& method, const Json& params);
  void notify(const std::string& method, const Json& params);

  Json initialize(const Json& params);
  void open(const Json& params);
  void change(const Json& params);
  void close(const Json& params);
  void publish(const std::string& uri, const Open& open);
  Json hover(const Json& params) const;
  Json completion(const Json& params) const;
  Json definition(const Json& params) const;
  std::optional<Uses> uses(const Open& open, const Json& params) const;
  Json references(const Json& params) const;
  Json highlights(const Json& params) const;
  Json prepare_rename(const Json& params) const;
  Json rename(const Json& params) const;
  Json actions(const Json& params) const;
  Json formatting(const Json& params) const;

  const Open& opened(const Json& params) const;
  size_t offset(const Open& open, const Json& params) const;
  Json range(const Open& open, size_t begin, size_t end) const;
  Json diagnostic(const Open& open, const Diagnostic& d) const;
  void keep(const std::string& uri, Open open);

  std::map<std::string, Open> open_;
  Encoding encoding_ = Encoding::utf16;
  bool creates_files_ = false;  // the client can
  bool initialized_ = false, shut_ = false;
  std::optional<int> exit_;
  std::vector<Json> out_;
};

// A message of the base protocol: headers, then as many bytes as Content-Length says. nullopt at
// the stream's end, or where it is no such stream.
std::optional<std::string> read_message(std::istream& in);
void write_message(std::ostream& out, const Json& message);

// Serves one client until it is gone; the process's status.
int serve(std::istream& in, std::ostream& out);

}  // namespace tile::lsp
