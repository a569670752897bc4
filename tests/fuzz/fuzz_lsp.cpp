// Messages of a client, separated by zero bytes, after one that opens a session: whatever they are,
// the server answers or is silent. What escapes it ends the process.
#include <string_view>

#include "runtime/cli/lsp/server.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  tile::lsp::Server server;
  server.receive(R"({"id": 0, "method": "initialize", "params": {"capabilities": {}}})");
  while (!bytes.empty()) {
    size_t end = bytes.find('\0');
    for (const tile::lsp::Json& answer : server.receive(std::string(bytes.substr(0, end)))) {
      answer.dump(-1, ' ', false, tile::lsp::Json::error_handler_t::replace);
    }
    bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
  }
  return 0;
}
