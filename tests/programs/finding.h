// A failing whole program made small and written down.
#pragma once

#include <string>

#include "tests/programs/configuration.h"

namespace tile::test {

// What kind of failure it is, without the numbers in it: shrinking keeps the kind.
std::string kind_of(const std::string& wrong);

struct Finding {
  WholeProgram program;
  Configuration configuration;
  std::string wrong;
};
// Tries programs and plainer configurations in processes of their own, of at most `seconds` each.
Finding shrunk_finding(const Finding& finding, int seconds);

// {"format": 1, "cases": […]} with one case that `tile conform` runs; the outputs are the reference
// interpreter's. Throws Failure.
std::string conformance_file(const Finding& finding, const std::string& name);

}  // namespace tile::test
