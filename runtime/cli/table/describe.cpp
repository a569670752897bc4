#include <CLI/CLI.hpp>
#include <map>

#include "runtime/cli/table/command_info.h"
#include "runtime/engine/inspect/pass_list.h"

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

std::vector<std::string> optional_passes() {
  std::vector<std::string> names;
  for (const PassInfo& pass : all_passes()) {
    if (pass.optional) names.emplace_back(pass.name);
  }
  return names;
}

OptionInfo described(const CLI::Option& option) {
  OptionInfo info;
  info.positional = option.get_positional();
  const std::vector<std::string>& names = option.get_lnames();
  info.name = info.positional || names.empty() ? option.get_name(info.positional) : "--" + names[0];
  info.description = option.get_description();
  info.known = known_values(info.name);
  info.initial = option.get_default_str();
  info.required = option.get_required();
  info.repeated = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() > 0) take_type(option.get_type_name(), info);
  return info;
}

}  // namespace

const std::vector<std::string>& known_values(const std::string& option) {
  static const std::map<std::string, std::vector<std::string>> kKnown = {
      {"--backend", {"auto", "cpu", "cuda", "reference"}},
      {"--features", {"avx512", "avx2", "sse", "sm_80", "sm_90a"}},
      {"--lang", {"tile", "mfg", "lift"}},
      {"--precision", {"f32", "tf32", "3xtf32"}},
      {"--skip-pass", optional_passes()},
      {"--stage",
       {"program", "bound", "reduced", "kernels", "schedule", "nest", "llvm", "asm", "cuda", "ptx",
        "sass", "views"}},
  };
  static const std::vector<std::string> kNone;
  auto found = kKnown.find(option);
  return found == kKnown.end() ? kNone : found->second;
}

CommandInfo describe(const CLI::App& app) {
  CommandInfo info{app.get_name(), app.get_description(), app.get_footer(), {}, {}, {}};
  for (const CLI::Option* option : app.get_options()) info.options.push_back(described(*option));
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    info.commands.push_back(describe(*sub));
  }
  return info;
}

void add_examples(CommandInfo& program,
                  std::vector<ExampleInfo> (*of)(const std::string& command)) {
  program.examples = of("");
  for (CommandInfo& command : program.commands) command.examples = of(command.name);
}

}  // namespace tile::cli
