// The examples of tile-bench's manual pages. They work in an empty folder once those of `tile new`
// were run there, in the order of the commands, which the tests do.
#include "bench/commands/commands.h"

namespace tile::bench {
namespace {

#define PRODUCT "start.tile --shape A=64x64 --shape B=64x64 --shape D=64 --quick"

constexpr struct {
  const char *command, *what, *line;
} kExamples[] = {
    {"", "Time a program of your own, kernel by kernel:", "tile-bench run " PRODUCT},
    {"", "Time the product's benchmarks:", "tile-bench run matmul_64 --quick"},
    {"list", "List the benchmarks of products:", "tile-bench list --filter matmul"},
    {"run", "Time a program of your own:", "tile-bench run " PRODUCT},
    {"run",
     "Beside another one of the same inputs:", "tile-bench run " PRODUCT " --against start.tile"},
    {"run", "Keep the results, and draw them as a page:",
     "tile-bench run " PRODUCT " --json now.json --html now.html"},
    {"tune", "Race schedules, and time before and after:",
     "tile-bench tune matmul_64 --quick --budget 200 --json tuned.json"},
    {"accuracy", "How far f32 is from f64 in a small U-Net and its training:",
     "tile-bench accuracy --filter unet --small"},
    {"compare", "Fail if a benchmark became slower by a tenth:",
     "cp now.json before.json; tile-bench compare before.json now.json --threshold 0.1"},
    {"report", "Draw a file of results:", "tile-bench report now.json page.html"},
    {"study", "Judge the cost model on two random shapes:",
     "tile-bench study --shapes 2 --seconds 0.2 --race-ms 50 --json study.json"},
    {"cliffs", "Time products of sizes 64 to 66:", "tile-bench cliffs --from 64 --to 66"},
    {"sizes", "Count the codes of a network at sizes 1 to 8:",
     "tile-bench sizes --filter mean --to 8 --no-times"},
    {"steps", "Time a call of 50 steps beside as many single runs:",
     "tile-bench steps start.lift --shape A=4096 --steps 50"},
    {"completion",
     "Complete commands in this shell:", "tile-bench completion bash >bench.bash; . ./bench.bash"},
    {"man", "Print a page:", "tile-bench man run"},
};

}  // namespace

std::vector<cli::ExampleInfo> examples_of(const std::string& command) {
  std::vector<cli::ExampleInfo> found;
  for (const auto& example : kExamples) {
    if (command == example.command) found.push_back({example.what, example.line});
  }
  return found;
}

}  // namespace tile::bench
