// `tile-bench run FILE --shape NAME=…`: any program, without header lines.
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/commands/commands.h"
#include "bench/measure/prepared.h"

namespace tile::bench {

struct FileArguments {
  std::vector<std::string> shapes;  // as --shape gives them
  std::string against;              // another program of the same inputs; empty: none
};

// A program's slowest kernels, each with its work, its share of its ceiling and its schedule.
void print_kernels(std::ostream& out, const Prepared& p, size_t most);

// The file among the names, where one of them is a program's file; throws Failure where there are
// other names beside it.
std::optional<std::string> program_file(const std::vector<std::string>& names);

// The program of a file on made data of these shapes. Throws Failure.
Prepared prepared_file(const std::shared_ptr<Engine>& engine, const std::string& file,
                       const std::vector<std::string>& shapes);

// The program of a file is a step, whose outputs feed inputs as `feeds` say (OUTPUT=INPUT; none:
// the first output the first input): times `steps` of them in one call beside as many single runs,
// and beside a program that makes as many steps by itself, as Lift's Iterate does.
struct StepsOptions {
  int64_t steps = 100;
  std::vector<std::string> feeds;
  std::string loop;  // that program's file; empty: none
};
int command_steps(const Request& request, const FileArguments& arguments,
                  const StepsOptions& options);

// What other work does to times that are measured now: where so many processes want processors, on
// the average of the last minute; empty where they have them. Measuring itself takes them all.
std::string disturbance(double processes, double processors);

// Times the program of a file on made data, and prints time, memory, compile time, and each kernel
// with its work, its share of the ceiling and its schedule. With `against` the two take turns,
// their results are compared, and the exit status is 1 where these differ by more than is
// tolerated.
int command_run_file(const Request& request, const std::string& file,
                     const FileArguments& arguments);

}  // namespace tile::bench
