#include "bench/report/kernel_table.h"

#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "bench/report/charts.h"
#include "bench/report/progress.h"

namespace tile::bench {
namespace {

using Json = nlohmann::ordered_json;

// Each line of a text some columns to the right, without empty ones.
std::string indented(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) out += "    " + line + "\n";
  }
  return out;
}

std::string operations_text(const KernelTime& k) {
  return k.operations ? quantity(*k.operations, "FLOP") : "operations not counted";
}

std::string part_text(double ns, double sum_ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%.0f %%", sum_ns > 0 ? 100 * ns / sum_ns : 0);
  return text;
}

}  // namespace

std::string quantity(double value, const char* unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T"};
  size_t prefix = 0;
  for (; value >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix) value /= 1000;
  char text[48];
  std::snprintf(text, sizeof text, "%.4g %s%s", value, kPrefixes[prefix], unit);
  return text;
}

void print_kernel(std::ostream& out, const KernelTime& k, double sum_ns) {
  char time[48];
  std::snprintf(time, sizeof time, "%.3f us", k.ns / 1e3);
  out << "  kernel " << k.name << ": " << time << ", " << part_text(k.ns, sum_ns) << " of all, "
      << quantity(k.bytes, "B") << ", " << operations_text(k) << ", " << k.ceiling << "\n"
      << indented(k.schedule);
}

Json to_json(const std::vector<KernelTime>& kernels) {
  Json list = Json::array();
  for (const KernelTime& k : kernels) {
    Json entry = {{"name", k.name}, {"time", k.ns}, {"bytes", k.bytes}};
    if (k.operations) entry["operations"] = *k.operations;
    entry["ceiling"] = k.ceiling;
    entry["schedule"] = k.schedule;
    list.push_back(std::move(entry));
  }
  return list;
}

std::vector<KernelTime> kernels_of(const Json& json) {
  std::vector<KernelTime> list;
  for (const Json& entry : json) {
    KernelTime k;
    k.name = entry.value("name", "");
    k.ns = entry.value("time", 0.0);
    k.bytes = entry.value("bytes", 0.0);
    if (entry.contains("operations")) k.operations = entry.value("operations", 0.0);
    k.ceiling = entry.value("ceiling", "");
    k.schedule = entry.value("schedule", "");
    list.push_back(std::move(k));
  }
  return list;
}

std::string kernels_html(const std::vector<KernelTime>& kernels) {
  double sum = 0;
  for (const KernelTime& k : kernels) sum += k.ns;
  std::string out =
      "<table><tr><th>kernel</th><th>time</th><th>of all</th><th>bytes</th><th>operations</th>"
      "<th>ceiling</th></tr>";
  std::string schedules;
  for (const KernelTime& k : kernels) {
    out += "<tr><td>" + escaped(k.name) + "</td>";
    for (const std::string& text : {time_text(k.ns), part_text(k.ns, sum), quantity(k.bytes, "B"),
                                    operations_text(k), k.ceiling}) {
      out += "<td>" + escaped(text) + "</td>";
    }
    out += "</tr>";
    if (k.schedule.empty()) continue;
    schedules += "<h4>" + escaped(k.name) + "</h4><pre>" + escaped(k.schedule) + "</pre>";
  }
  out += "</table>";
  if (schedules.empty()) return out;
  return out + "<details><summary>Schedules</summary>" + schedules + "</details>";
}

}  // namespace tile::bench
