#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "runtime/cli/format/format.h"
#include "runtime/cli/tensor_file.h"
#include "runtime/cli/tools/tools.h"

namespace tile::cli {
namespace {

Language language_for(const std::string& file, const std::string& asked) {
  std::optional<Language> language =
      asked.empty() ? language_of_suffix(file) : parse_language(asked);
  if (language) return *language;
  fail(Stage::run, "argument", {}, "cannot tell the language of " + file,
       "use the suffix .tile, .mfg or .lift, or --lang");
}

// As a whole: a reader, or a full disk, never sees half of a program.
void replace(const std::string& file, const std::string& text) {
  std::string other = file + ".formatted";
  std::error_code error;
  std::filesystem::perms mode = std::filesystem::status(file, error).permissions();
  std::ofstream out(other, std::ios::binary);
  out << text;
  out.close();
  bool written = static_cast<bool>(out);
  if (written) std::filesystem::permissions(other, mode, error);
  // A link stays a link: what it names is replaced.
  std::filesystem::path target = std::filesystem::canonical(file, error);
  if (written && !error) std::filesystem::rename(other, target, error);
  if (written && !error) return;
  std::filesystem::remove(other, error);
  fail(Stage::run, "file", {}, "cannot write " + file);
}

int format_standard_input(const FormatArguments& arguments) {
  std::stringstream text;
  text << std::cin.rdbuf();
  auto source = std::make_shared<Source>(Source{"<standard input>", text.str()});
  Language language = language_for(source->name, arguments.language);
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
    auto source = std::make_shared<Source>(Source{file, read_text(file)});
    Language language = language_for(file, arguments.language);
    std::string text = located(source, [&] { return formatted(language, source); });
    if (text == source->text) continue;
    if (arguments.check) {
      std::cout << file << "\n";
      status = 1;
    } else {
      replace(file, text);
    }
  }
  return status;
}

}  // namespace tile::cli
