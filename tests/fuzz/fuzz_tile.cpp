// Any text is either a program or a located error of the Tile front end (rule 8.2), and a program
// prints back as itself (rule 2.5). Anything else ends the process: libFuzzer and replay.cpp both
// report that.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "core/ir/program.h"
#include "core/language/tile/tile.h"
#include "core/support/diagnostic.h"

namespace {

using tile::Failure;
using tile::Source;

[[noreturn]] void fault(const char* what, const std::string& text) {
  std::fprintf(stderr, "fuzz_tile: %s\n---\n%s\n---\n", what, text.c_str());
  std::abort();
}

// The program printed, or nothing where the text is refused as it should be.
std::optional<std::string> printed(const std::string& text) {
  auto source = std::make_shared<const Source>(Source{"fuzz.tile", text});
  try {
    return tile::print(tile::parse_tile(source));
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
  const std::optional<std::string> once = printed(text);
  if (!once) return 0;
  const std::optional<std::string> twice = printed(*once);
  if (!twice) fault("a printed program does not parse", text + "\n--- printed\n" + *once);
  if (*twice != *once) fault("printing is not stable", *once + "\n--- again\n" + *twice);
  return 0;
}
