#include "runtime/cli/table/parse_faults.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "core/support/diagnostic.h"
#include "runtime/cli/arguments.h"

namespace tile::cli {
namespace {

// A command of the line, with the commands that it is part of before its name: "tile records".
struct Named {
  const CLI::App& app;
  std::string name;

  std::vector<std::string> commands() const {
    std::vector<std::string> names;
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(sub->get_name());
    }
    return names;
  }
  // Without the dashes.
  std::vector<std::string> options() const {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& one : option->get_lnames()) names.push_back(one);
    }
    return names;
  }
  bool lacks_command() const { return app.get_subcommands().empty() && !commands().empty(); }
};

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  fail(Stage::run, "argument", {}, message, hint);
}

[[noreturn]] void refuse_option(const Named& command, const std::string& word) {
  std::string option = word.substr(0, word.find('='));
  std::string name = option.substr(std::min(option.size(), option.find_first_not_of('-')));
  refuse("unknown option " + option + " of " + command.name +
             suggestion(name, command.options(), "--"),
         command.commands().empty() ? command.name + " --help lists the options"
                                    : "options of a command stand behind its name");
}

// The last value of an option that takes a list and the word behind it, "--wrt A,B" of "--wrt A B";
// empty: no such option is given.
std::string list_with(const Named& command, const std::string& word) {
  for (const CLI::Option* option : command.app.get_options()) {
    if (option->get_delimiter() != ',' || option->results().empty()) continue;
    return option->get_name() + " " + option->results().back() + "," + word;
  }
  return "";
}

[[noreturn]] void refuse_word(const Named& command, const std::string& word) {
  if (!command.lacks_command()) {
    std::string hint = command.name + " --help says what it takes";
    std::vector<std::string> options = command.options();
    bool inputs = std::find(options.begin(), options.end(), "in") != options.end();
    if (std::string list = list_with(command, word); !list.empty()) {
      hint = "lists have commas, as in " + list;
    } else if (inputs && word.find('=') != std::string::npos) {
      hint = "it may be meant for an option such as --in " + word;
    }
    refuse(command.name + " does not expect \"" + word + "\"", hint);
  }
  std::string near = suggestion(word, command.commands());
  refuse("unknown command \"" + word + "\"" + near,
         near.empty() ? "the commands are " + listed(command.commands()) + "; " + command.name +
                            " --help describes them"
                      : "");
}

// Refuses the first word that the command does not know.
void refuse_extras(const Named& command) {
  for (const std::string& word : command.app.remaining()) {
    if (word == "--") continue;
    if (word.size() > 1 && word.front() == '-') refuse_option(command, word);
    refuse_word(command, word);
  }
}

// Refuses an option of one value that is given several.
void refuse_repeated(const Named& command) {
  for (const CLI::Option* option : command.app.get_options()) {
    std::vector<std::string> values = option->results();
    if (option->get_items_expected_max() != 1 || values.size() < 2) continue;
    refuse(option->get_name() + " has one value, but is given " + std::to_string(values.size()) +
               ": " + listed(values),
           "leave all but one out");
  }
}

// Refuses a value that is no number ("Could not convert: --threads = two" in CLI11's words), or
// none of those that there are ("shell: bahs not in {bash,zsh,fish}"). Other faults are left.
void refuse_value(const std::string& said, const std::string& hint) {
  constexpr std::string_view kConversion = "Could not convert: ", kIs = " = ", kOf = " not in {";
  size_t is = said.find(kIs), of = said.find(kOf), colon = said.find(": ");
  if (said.starts_with(kConversion) && is != std::string::npos) {
    std::string option = said.substr(kConversion.size(), is - kConversion.size());
    refuse(option + " is a number, not \"" + said.substr(is + kIs.size()) + "\"", hint);
  }
  if (of == std::string::npos || colon > of || said.back() != '}') return;
  std::string value = said.substr(colon + 2, of - colon - 2);
  std::vector<std::string> known =
      items_of(said.substr(of + kOf.size(), said.size() - of - kOf.size() - 1));
  refuse(said.substr(0, colon) + ": \"" + value + "\" is none of " + listed(known) +
             suggestion(value, known),
         hint);
}

// What is missing, or not expected, may be a word that is misspelt.
bool may_be_misspelt(const CLI::ParseError& error) {
  auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  return code == CLI::ExitCodes::ExtrasError || code == CLI::ExitCodes::RequiredError ||
         code == CLI::ExitCodes::RequiresError;
}

}  // namespace

void fail_for(const CLI::App& app, const CLI::ParseError& error) {
  std::vector<Named> path = {{app, app.get_name()}};
  while (!path.back().app.get_subcommands().empty()) {
    const CLI::App& sub = *path.back().app.get_subcommands().back();
    path.push_back({sub, path.back().name + " " + sub.get_name()});
  }
  if (may_be_misspelt(error)) {
    for (const Named& command : path) refuse_extras(command);
  }
  const Named& last = path.back();
  bool mismatch =
      static_cast<CLI::ExitCodes>(error.get_exit_code()) == CLI::ExitCodes::ArgumentMismatch;
  if (mismatch) refuse_repeated(last);
  if (last.lacks_command()) {
    refuse("a command is missing", "the commands are " + listed(last.commands()));
  }
  std::string hint = last.name + " --help says more";
  refuse_value(error.what(), hint);
  refuse(error.what(), hint);
}

}  // namespace tile::cli
