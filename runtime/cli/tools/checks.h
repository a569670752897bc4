// What `tile doctor` looks at, one check each.
#pragma once

#include <string>
#include <vector>

namespace tile::cli {

enum class Health : uint8_t {
  good,
  note,   // something is not there, and nothing is wrong
  slow,   // works, but not as fast as this machine could
  fault,  // is there and does not work
};

struct Finding {
  std::string subject;  // a word, the same in every version: "cpu", "cache" …
  Health health = Health::good;
  std::string found;
  std::string advice;  // what to do; may be empty
};

// Of the machine: processor, rates, threads, limits of the process, settings of the system.
std::vector<Finding> machine_findings();
// Of what the product keeps and opens: cache, GPU, variables, and a computation on each backend.
std::vector<Finding> product_findings();

}  // namespace tile::cli
