// The commands of a program that print its own table of commands: completions and manual pages.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/table/command_info.h"

namespace tile::cli {

// Refuses the empty value of an option, which would be taken for none: a variable of a script that
// is not set.
CLI::Option* given(CLI::Option* option);
// Refuse what is no finite number above 0, or from 0 on.
CLI::Validator positive();
CLI::Validator not_negative();
// Refuses what is no number of decimal digits within the ends.
CLI::Validator whole_number(uint64_t least, uint64_t most);

// Reads the command line. The process's status where that is all: 0 for help. Throws Failure (run,
// "argument").
std::optional<int> parsed(CLI::App& app, int argc, char** argv);

std::string program_version();  // "tile 0.2.0"

struct TableRequest {
  std::string shell, page, folder;
};
CLI::App* add_completion(CLI::App& app, TableRequest& request);
CLI::App* add_manual(CLI::App& app, TableRequest& request);
// Print, or write to the folder. The process's status; throw Failure (run).
int print_completion(const CLI::App& app, const TableRequest& request);
int print_manual(const CLI::App& app, const TableRequest& request,
                 std::vector<ExampleInfo> (*examples)(const std::string& command));

}  // namespace tile::cli
