#include "core/schedule/target.h"

#include <cstdio>

namespace tile {

std::string to_string(const Target& t) {
  auto rate = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value);
    return std::string(text);
  };
  std::string s = t.device + " [" + t.features + "]";
  auto add = [&](const char* name, const std::string& value) {
    s += std::string(" ") + name + "=" + value;
  };
  add("vector_bits", std::to_string(t.vector_bits));
  add("vector_registers", std::to_string(t.vector_registers));
  add("threads", std::to_string(t.threads));
  add("l1", std::to_string(t.l1_bytes));
  add("l2", std::to_string(t.l2_bytes));
  add("l3", std::to_string(t.l3_bytes));
  add("fma_per_ns", rate(t.fma_per_ns));
  add("l2_per_ns", rate(t.l2_bytes_per_ns));
  add("l3_per_ns", rate(t.l3_bytes_per_ns));
  add("dram_per_ns", rate(t.dram_bytes_per_ns));
  add("parallel_ns", rate(t.parallel_overhead_ns));
  add("strict_skip", t.strict_skip ? "1" : "0");
  return s;
}

}  // namespace tile
