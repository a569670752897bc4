// The kernels of a program one by one: what each takes, its work, its share of its own ceiling and
// its schedule; as lines, as JSON and as a part of a page.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tile::bench {

struct KernelTime {
  std::string name;
  double ns = 0, bytes = 0;
  std::optional<double> operations;  // nothing: nobody can count them
  std::string ceiling;               // how near it is to its own, in words
  std::string schedule;              // its text; empty: it has none
};

// "786.4 kB", "1.573 MFLOP".
std::string quantity(double value, const char* unit);

void print_kernel(std::ostream& out, const KernelTime& kernel, double sum_ns);
nlohmann::ordered_json to_json(const std::vector<KernelTime>& kernels);
// Fields that are not there are left as they are by default.
std::vector<KernelTime> kernels_of(const nlohmann::ordered_json& json);
// A table with a row for each, and their schedules to be unfolded.
std::string kernels_html(const std::vector<KernelTime>& kernels);

}  // namespace tile::bench
