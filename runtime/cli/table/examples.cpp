// The examples of the manual pages. They work in an empty folder once those of `tile new` were run
// there, which the tests do.
#include "runtime/cli/table/command_info.h"

namespace tile::cli {
namespace {

#define SHAPES "--shape A=4x3 --shape B=3x2 --shape D=2"
#define INPUTS "--in A=random:4x3 --in B=random:3x2 --in D=random:2"

constexpr struct {
  const char *command, *what, *line;
} kExamples[] = {
    {"", "Write a program to start from, and run it:", "tile new tile"},
    {"", "Inputs are files of NumPy, pictures, numbers, or made here:",
     "tile run start.tile " INPUTS " --out O=-"},
    {"new", "Write start.tile, a commented program:", "tile new tile"},
    {"new", "A filter of pictures, and a stencil:", "tile new mfg; tile new lift"},
    {"new", "Into a file of another name:", "tile new mfg blur.mfg"},
    {"check",
     "Say what is wrong with a program, or what it takes and gives:", "tile check start.tile"},
    {"check",
     "With the shapes of the inputs, compile it as well:", "tile check start.tile " SHAPES},
    {"check", "For an editor or a script:", "tile check start.tile --diagnostics json"},
    {"run", "Print an output as text:", "tile run start.tile " INPUTS " --out O=-"},
    {"run", "Write it to a file, and say how long a run takes:",
     "tile run start.tile " INPUTS " --out O=o.npy --repeat 10"},
    {"run",
     "Say what each kernel takes, and what bounds it:", "tile run start.tile " INPUTS " --profile"},
    {"run", "With gradients; the seed DO is an input:",
     "tile run start.tile " INPUTS " --grad O:A,B --in DO=random:4x2 --out DA=da.npy"},
    {"run", "Filter a picture, with another value of a parameter:",
     "tile run start.mfg --in input_u8=picture:48x64 --param radius=4 --out "
     "result_u8=soft.png"},
    {"run", "A hundred steps, each of the result of the one before:",
     "tile run start.lift --in A=iota:8 --steps 100 --feed out=A --out out=-"},
    {"run", "Divide the rows among two ranks:",
     "tile run start.tile " INPUTS " --mesh x=2 --layout 'A[x, *] O[x, *]' --out O=-"},
    {"emit", "Print the program after the passes:", "tile emit start.tile --stage reduced " SHAPES},
    {"emit", "The loops of its kernels:", "tile emit start.tile --stage nest " SHAPES},
    {"emit",
     "Code for a processor with AVX2:", "tile emit start.tile --stage asm --features avx2 " SHAPES},
    {"explain", "Say what became of each statement:", "tile explain start.tile " SHAPES},
    {"explain", "And why, of the first kernel:", "tile explain start.tile --kernel 1 " SHAPES},
    {"explain", "What two ranks would exchange:", "tile explain start.tile --mesh x=2 " SHAPES},
    {"grad", "Print the program with gradients of O:", "tile grad start.tile --of O --wrt A,B,D"},
    {"grad", "Keep it as a program of its own:",
     "tile grad start.tile --of O --wrt A,B,D >gradients.tile; tile check gradients.tile"},
    {"conform", "Run one case from a file:",
     R"(printf '%s' '{"format": 1, "cases": [{"name": "double", "lang": "tile", "program": "function (A) -> (O) { O = A * 2; }", "inputs": {"A": {"dtype": "f32", "shape": [2], "data": [1, 2]}}, "outputs": {"O": {"dtype": "f32", "shape": [2], "data": [2, 4]}}, "rtol": 0, "atol": 0}]}' >cases.json
tile conform cases.json)"},
    {"conform", "By the interpreter that says what programs mean:",
     "tile conform cases.json --backend reference"},
    {"passes", "List what --skip-pass and emit --stage after:PASS know:", "tile passes"},
    {"cache", "Say where compiled code is kept, and how much:", "tile cache"},
    {"cache", "Remove it:", "tile cache clear"},
    {"tune", "Race schedules for two seconds; programs find the winners from then on:",
     "tile tune start.tile --seconds 2 " SHAPES},
    {"tune", "Many workers, on any machines that see the folder:",
     "mkdir -m 700 tuning; tile tune start.tile --share tuning --candidates 2 --confirm 1 "
     "--seconds 20 " SHAPES},
    {"records", "List the best schedules on record:", "tile records list"},
    {"records", "Take them to another machine:",
     "tile records export tuned.jsonl; tile records import tuned.jsonl --no-race"},
    {"devices", "List what programs can run on:", "tile devices"},
    {"fmt", "Format a program in place:", "tile fmt start.tile"},
    {"fmt", "Fail where one is not formatted:", "tile fmt --check start.tile start.mfg start.lift"},
    {"fmt", "As a filter:", "tile fmt - --lang tile <start.tile"},
    {"watch", "Show a filter before and after in a browser, whenever it is saved; here once:",
     "tile watch start.mfg --in input_u8=picture:48x64 --html soft.html --runs 1"},
    {"doctor", "Say what is wrong with this machine:", "tile doctor"},
    {"doctor", "For a report:", "tile doctor --json >doctor.json"},
    {"completion",
     "Complete commands in this shell:", "tile completion bash >tile.bash; . ./tile.bash"},
    {"man", "Print a page:", "tile man run"},
    {"man", "Write pages and completions for a user:", "tile man --shared-files share"},
};

}  // namespace

std::vector<ExampleInfo> examples_of(const std::string& command) {
  std::vector<ExampleInfo> found;
  for (const auto& example : kExamples) {
    if (command == example.command) found.push_back({example.what, example.line});
  }
  return found;
}

}  // namespace tile::cli
