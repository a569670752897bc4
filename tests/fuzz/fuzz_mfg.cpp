// Any text is either a program or a located error of the MFG front end
// (core/language/tile/REFERENCE.md 8.2), and parsing is a function of the text. Anything else ends
// the process: libFuzzer and replay.cpp both report that.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "core/ir/text.h"
#include "core/language/mfg/mfg.h"

namespace {

using tile::Failure;
using tile::Source;

[[noreturn]] void fault(const char* what, const std::string& text) {
  std::fprintf(stderr, "fuzz_mfg: %s\n---\n%s\n---\n", what, text.c_str());
  std::abort();
}

// Every statement's body, verified and printed; nothing where the text is refused as it should be.
std::optional<std::string> bodies(const std::string& text) {
  auto source = std::make_shared<const Source>(Source{"fuzz.mfg", text});
  try {
    tile::Program program = tile::parse_mfg(source);
    std::string out;
    for (const tile::Statement& s : program.statements) {
      const auto* c = std::get_if<tile::SymbolicContraction>(&s.what);
      if (c == nullptr) continue;
      tile::verify_body(c->body, c->accesses.size(), c->indices.size(), true);
      out += print(c->body);
    }
    return out;
  } catch (const Failure& failure) {
    const tile::Diagnostic& error = failure.diagnostic();
    if (error.stage != tile::Stage::parse) fault("an error of another stage", text);
    if (error.code.empty() || error.message.empty()) fault("an error that says nothing", text);
    if (error.span.begin > text.size() || error.span.end > text.size())
      fault("an error outside the text", text);
    if (tile::render(error, *source).size() > error.message.size() + error.hint.size() + 2000)
      fault("an error whose rendering grows with the text", text);
    tile::render_json(error, *source);
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (bodies(text) != bodies(text)) fault("two parses differ", text);
  return 0;
}
