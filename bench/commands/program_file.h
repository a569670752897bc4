// `tile-bench run FILE --shape NAME=…`: any program, without header lines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/commands/commands.h"

namespace tile::bench {

struct FileArguments {
  std::vector<std::string> shapes;  // as --shape gives them
  std::string against;              // another program of the same inputs; empty: none
};

// The file among the names, where one of them is a program's file; throws Failure where there are
// other names beside it.
std::optional<std::string> program_file(const std::vector<std::string>& names);

// Times the program of a file on made data, and prints time, memory, compile time, and each kernel
// with its work, its share of the ceiling and its schedule. With `against` the two take turns,
// their results are compared, and the exit status is 1 where these differ.
int command_run_file(const Request& request, const std::string& file,
                     const FileArguments& arguments);

}  // namespace tile::bench
