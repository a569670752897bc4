#include "runtime/engine/inspect/explain_cost.h"

#include <cmath>
#include <cstdio>

#include "core/schedule/cost/estimate.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "runtime/engine/inspect/names.h"

namespace tile {
namespace {

constexpr size_t kCandidates = 8;  // among which the next schedule is looked for

// JSON has no infinities.
std::string number(double value, int digits = 6) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, std::isfinite(value) ? value : 0);
  return text;
}

std::string made_by(const CostTerm& term) {
  if (term.parts.size() < 2 && term.factor == 1) return "";
  switch (term.how) {
    case Combine::sum:
      return term.factor == 1 ? "" : ", " + number(term.factor) + " of the sum";
    case Combine::largest:
      return term.factor == 1 ? ", the largest" : ", " + number(term.factor) + " of the largest";
    case Combine::overlap:
      return ", the largest and " + number(term.factor) + " of the others";
  }
  return "";
}

void write(const CostTerm& term, size_t depth, std::string& out) {
  char ns[32];
  std::snprintf(ns, sizeof ns, "%14.3f us  ", term.ns / 1e3);
  out += ns + std::string(2 * depth, ' ') + term.name + made_by(term);
  for (size_t i = 0; i < term.facts.size(); ++i) {
    out += (i == 0 ? " (" : ", ") + term.facts[i].first + " " + number(term.facts[i].second);
  }
  out += term.facts.empty() ? "\n" : ")\n";
  for (const CostTerm& part : term.parts) {
    if (part.ns != 0) write(part, depth + 1, out);
  }
}

std::string json_of(const CostTerm& term) {
  static constexpr const char* kHow[] = {"sum", "largest", "overlap"};
  std::string out = "{\"name\":" + quoted(term.name) + ",\"ns\":" + json_number(term.ns);
  if (!term.facts.empty()) {
    out += ",\"facts\":{";
    for (size_t i = 0; i < term.facts.size(); ++i) {
      out += (i == 0 ? "" : ",") + quoted(term.facts[i].first) + ":" +
             json_number(term.facts[i].second);
    }
    out += "}";
  }
  if (term.parts.empty()) return out + "}";
  out += ",\"combine\":" + quoted(kHow[static_cast<size_t>(term.how)]) +
         ",\"factor\":" + json_number(term.factor) + ",\"parts\":[";
  for (size_t i = 0; i < term.parts.size(); ++i) {
    out += (i == 0 ? "" : ",") + json_of(term.parts[i]);
  }
  return out + "]}";
}

std::string json_of(const ScheduleCost& cost) {
  return "{\"schedule\":" + quoted(print(cost.schedule)) + ",\"cost\":" + json_of(cost.cost) + "}";
}

ScheduleCost cost_of(const Schedule& schedule, const Kernel& kernel, const Target& target) {
  ScheduleCost c{schedule, {}};
  estimate(schedule, kernel, target, &c.cost);
  return c;
}

}  // namespace

std::string json_number(double value) { return number(value, 17); }

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

LaunchCost launch_cost(const Launch& launch, const Target& target, bool with_next) {
  LaunchCost c;
  c.name = name_of(launch);
  if (!launch.kernel) return c;
  const Kernel& kernel = *launch.kernel;
  c.taken = cost_of(launch.schedule, kernel, target);
  if (!with_next) return c;
  for (const Schedule& s : candidates(kernel, target, kCandidates)) {
    if (s == launch.schedule || !illegal(s, kernel, target).empty()) continue;
    ScheduleCost other = cost_of(s, kernel, target);
    if (!c.next || other.cost.ns < c.next->cost.ns) c.next = std::move(other);
  }
  return c;
}

std::string to_text(const LaunchCost& cost) {
  if (!cost.taken) return "";
  std::string out = "  estimated time, by its terms:\n";
  write(cost.taken->cost, 0, out);
  if (cost.measured_ns) {
    char line[96];
    std::snprintf(line, sizeof line, "%14.3f us  measured, %.2f times the estimate\n",
                  *cost.measured_ns / 1e3, *cost.measured_ns / cost.taken->cost.ns);
    out += line;
  }
  if (!cost.next) return out + "  the model knows no other schedule\n";
  out += "  the next schedule by the model:\n" + print(cost.next->schedule);
  write(cost.next->cost, 0, out);
  return out;
}

std::string json_fields(const LaunchCost& cost) {
  std::string out = "\"kernel\":" + quoted(cost.name);
  if (cost.taken) out += ",\"taken\":" + json_of(*cost.taken);
  if (cost.next) out += ",\"next\":" + json_of(*cost.next);
  if (cost.measured_ns) out += ",\"measured_ns\":" + json_number(*cost.measured_ns);
  if (!cost.record.empty()) out += ",\"record\":" + quoted(cost.record);
  return out;
}

}  // namespace tile
