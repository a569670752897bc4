// Requests that the server answers with an error.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace tile::lsp {

// Codes of JSON-RPC and of the protocol.
constexpr int kParseError = -32700, kInvalidRequest = -32600, kMethodNotFound = -32601,
              kInvalidParams = -32602, kInternalError = -32603, kNotInitialized = -32002,
              kRequestFailed = -32803;

struct Refused : std::exception {
  Refused(int code_of, std::string text) : code(code_of), message(std::move(text)) {}
  const char* what() const noexcept override { return message.c_str(); }
  int code;
  std::string message;
};

}  // namespace tile::lsp
