#include "runtime/cli/table/table_commands.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "runtime/cli/table/parse_faults.h"
#include "tile/tile.h"

namespace tile::cli {
namespace {

// Of a number's text, in words that name neither the largest double nor a type.
CLI::Validator number_from_0(bool itself, const std::string& name) {
  auto fault = [itself](const std::string& text) {
    double value = std::strtod(text.c_str(), nullptr);
    bool good = std::isfinite(value) && (value > 0 || (itself && value == 0));
    if (good) return std::string();
    return text + " is no finite number " + (itself ? "from 0 on" : "above 0");
  };
  return {fault, name};
}

}  // namespace

CLI::Option* given(CLI::Option* option) {
  auto fault = [](const std::string& text) {
    return text.empty() ? "the value is empty: give one, or leave the option out" : std::string();
  };
  return option->check(CLI::Validator(fault, ""));
}

CLI::Validator positive() { return number_from_0(false, "POSITIVE"); }
CLI::Validator not_negative() { return number_from_0(true, "NONNEGATIVE"); }

CLI::Validator whole_number(uint64_t least, uint64_t most) {
  auto fault = [least, most](const std::string& text) {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    bool good = error == std::errc() && stop == end && value >= least && value <= most;
    if (good) return std::string();
    return text + " is no whole number from " + std::to_string(least) + " to " +
           std::to_string(most);
  };
  return {fault, ""};
}

std::optional<int> parsed(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) fail_for(app, error);
    return app.exit(error);
  }
  return std::nullopt;
}

std::string program_version() {
  return "tile " + std::to_string(TILE_VERSION_MAJOR) + "." + std::to_string(TILE_VERSION_MINOR) +
         "." + std::to_string(TILE_VERSION_PATCH);
}

CLI::App* add_completion(CLI::App& app, TableRequest& request) {
  CLI::App* complete = app.add_subcommand("completion", "print completions for a shell");
  complete->add_option("shell", request.shell, "the shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return complete;
}

CLI::App* add_manual(CLI::App& app, TableRequest& request) {
  CLI::App* manual = app.add_subcommand("man", "print manual pages, or write all to a folder");
  given(manual->add_option("page", request.page,
                           "a command (default: the page of the whole program)"));
  given(manual->add_option("--shared-files", request.folder,
                           "write all pages and completions below this folder, as in /usr/share"));
  return manual;
}

int print_completion(const CLI::App& app, const TableRequest& request) {
  std::cout << completion(describe(app), request.shell);
  return 0;
}

int print_manual(const CLI::App& app, const TableRequest& request,
                 std::vector<ExampleInfo> (*examples)(const std::string& command)) {
  CommandInfo info = describe(app);
  add_examples(info, examples);
  if (request.folder.empty()) {
    std::cout << manual_page(info, request.page, program_version());
  } else {
    write_shared_files(info, program_version(), request.folder);
  }
  return 0;
}

}  // namespace tile::cli
