#include <iostream>

#include "core/language/program_text.h"
#include "runtime/cli/files.h"
#include "runtime/cli/format/format.h"
#include "runtime/cli/tools/tools.h"

namespace tile::cli {
namespace {

int format_standard_input(const FormatArguments& arguments) {
  Language language = language_for("standard input", arguments.language);
  auto source =
      std::make_shared<Source>(Source{"<standard input>", read_standard_input(kMaxTextBytes)});
  std::string result = located(source, [&] { return formatted(language, source); });
  if (arguments.check) return result == source->text ? 0 : 1;
  std::cout << result;
  return 0;
}

}  // namespace

int command_fmt(const FormatArguments& arguments) {
  int status = 0;
  for (const std::string& file : arguments.files) {
    if (file == "-") {
      status |= format_standard_input(arguments);
      continue;
    }
    auto source = std::make_shared<Source>(Source{file, read_text(file, kMaxTextBytes)});
    Language language = language_for(file, arguments.language);
    std::string text = located(source, [&] { return formatted(language, source); });
    if (text == source->text) continue;
    if (arguments.check) {
      std::cout << file << "\n";
      status = 1;
    } else {
      write_text(file, text);
    }
  }
  return status;
}

}  // namespace tile::cli
