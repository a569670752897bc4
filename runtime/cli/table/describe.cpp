#include <CLI/CLI.hpp>

#include "runtime/cli/table/command_info.h"

namespace tile::cli {
namespace {

// CLI11 tells what a value may be as a part of the type's name: TEXT:{text,json}.
void take_type(const std::string& type, OptionInfo& option) {
  size_t colon = type.find(":{");
  option.value = type.substr(0, colon);
  if (colon == std::string::npos) return;
  std::stringstream list(type.substr(colon + 2, type.find('}') - colon - 2));
  std::string choice;
  while (std::getline(list, choice, ',')) option.choices.push_back(choice);
}

OptionInfo described(const CLI::Option& option) {
  OptionInfo info;
  info.positional = option.get_positional();
  const std::vector<std::string>& names = option.get_lnames();
  info.name = info.positional || names.empty() ? option.get_name(info.positional) : "--" + names[0];
  info.description = option.get_description();
  info.initial = option.get_default_str();
  info.required = option.get_required();
  info.repeated = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() > 0) take_type(option.get_type_name(), info);
  return info;
}

}  // namespace

CommandInfo describe(const CLI::App& app) {
  CommandInfo info{app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::Option* option : app.get_options()) info.options.push_back(described(*option));
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    info.commands.push_back(describe(*sub));
  }
  return info;
}

}  // namespace tile::cli
