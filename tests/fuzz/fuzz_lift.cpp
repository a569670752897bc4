// Any text is either a program or a located error of the Lift front end, whose views print.
// Anything else ends the process: libFuzzer and replay.cpp both report that.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "core/language/lift/lift.h"
#include "core/language/lift/views.h"
#include "core/support/diagnostic.h"

namespace {

using tile::Failure;
using tile::Source;

[[noreturn]] void fault(const char* what, const std::string& text) {
  std::fprintf(stderr, "fuzz_lift: %s\n---\n%s\n---\n", what, text.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto source = std::make_shared<const Source>(Source{"fuzz.lift", text});
  try {
    tile::print_views(tile::parse_lift(source));
  } catch (const Failure& failure) {
    const tile::Diagnostic& error = failure.diagnostic();
    if (error.stage != tile::Stage::parse) fault("an error of another stage", text);
    if (error.code.empty() || error.message.empty()) fault("an error that says nothing", text);
    if (error.span.begin > text.size() || error.span.end > text.size())
      fault("an error outside the text", text);
    tile::render_json(error, *source);
  }
  return 0;
}
