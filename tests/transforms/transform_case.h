// A file of this folder: a program, the pass that it is about, and what that pass makes of it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/target/target.h"

namespace tile::test {

struct TransformCase {
  std::string head;  // all lines before the expected text
  std::string pass;
  std::string language = "tile";  // or mfg, lift; bound: the text form of bound programs
  Target target;
  std::vector<InputType> inputs;
  std::vector<size_t> constants;  // numbers of inputs that stay the same in every run
  std::vector<std::string> skip;  // passes that are left out
  bool always = false;            // fuses wherever that is legal, whatever the model says
  bool unchanged = false;         // the pass has nothing to do here
  bool plain = false;             // the schedule is plain_schedule()
  std::string program;
  std::string expected;
};

// Throws std::runtime_error that names the file and what is wrong in it.
TransformCase read_case(const std::filesystem::path& file);

// What the pass makes of the program. Throws Failure, InternalError, and std::runtime_error where
// the pass was not run or did not change the text (or changed it, of a case that says unchanged).
std::string transformed(const TransformCase& c);

}  // namespace tile::test
