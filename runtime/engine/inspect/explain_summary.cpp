#include "runtime/engine/inspect/explain_summary.h"

#include <algorithm>
#include <cstdio>

#include "runtime/engine/inspect/names.h"
#include "runtime/engine/inspect/profile.h"

namespace tile {
namespace {

constexpr size_t kNames = 6;  // of tensors in a line; of more the last counts most

void add_once(std::vector<std::string>& to, std::string_view text) {
  if (std::find(to.begin(), to.end(), text) == to.end()) to.emplace_back(text);
}

const CostTerm& largest_part(const CostTerm& term) {
  if (term.parts.empty()) return term;
  return largest_part(*std::max_element(
      term.parts.begin(), term.parts.end(),
      [](const CostTerm& one, const CostTerm& other) { return one.ns < other.ns; }));
}

LaunchSummary begun(const Executable& e, const Launch& launch, const std::string& number) {
  LaunchSummary s;
  s.number = number;
  s.line = line_of(e, launch).number;
  LaunchWork work = work_of(e, launch);
  s.ceiling_ns = work.least_ns();
  s.memory_bound = work.memory_ns >= work.arithmetic_ns;
  return s;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
  return out;
}

std::string names_text(const std::vector<std::string>& names) {
  if (names.size() <= kNames) return joined(names);
  std::vector<std::string> first(names.begin(), names.begin() + kNames - 1);
  return joined(first) + " … " + names.back();
}

}  // namespace

std::string microseconds(std::optional<double> ns) {
  if (!ns) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.3f us", *ns / 1e3);
  return text;
}

namespace {

// Memory gives data more slowly than caches do, which may hold it.
std::string ceiling_text(const LaunchSummary& s) {
  std::optional<double> ns = s.measured_ns ? s.measured_ns : s.estimate_ns;
  if (!ns || *ns <= 0 || s.ceiling_ns <= 0) return "-";
  if (s.ceiling_ns > *ns) return "from the caches";
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %% of %s", 100 * s.ceiling_ns / *ns,
                s.memory_bound ? "memory" : "arithmetic");
  return text;
}

using Row = std::vector<std::string>;

Row row_of(const LaunchSummary& s, bool measured) {
  Row row = {s.number, std::to_string(s.line), microseconds(s.estimate_ns)};
  if (measured) row.push_back(microseconds(s.measured_ns));
  std::string origin = !s.record.empty() ? "record " + s.record : s.most.empty() ? "-" : "model";
  row.insert(row.end(), {s.most.empty() ? "-" : s.most, ceiling_text(s), origin,
                         names_text(s.makes) + " (" + joined(s.classes) + ")"});
  return row;
}

size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Columns of numbers end together, those of words begin together.
std::string aligned(const std::vector<Row>& rows, size_t numbers) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      std::string space(widths[i] - width_of(row[i]), ' ');
      bool last = i + 1 == row.size();
      out += i < numbers ? space + row[i] : row[i] + (last ? "" : space);
      out += last ? "\n" : "  ";
    }
  }
  return out;
}

}  // namespace

LaunchSummary summary_of(const Executable& e, const Launch& launch, const LaunchCost& cost,
                         const std::string& number) {
  LaunchSummary s = begun(e, launch, number);
  s.measured_ns = cost.measured_ns;
  s.record = cost.record;
  if (!launch.kernel) {
    s.makes.push_back(e.program.tensors[launch.arguments.back()].name);
    s.classes.push_back(name_of(launch));
    return s;
  }
  const BoundTensors& tensors = launch.kernel->tensors;
  for (const KernelStage& stage : launch.kernel->stages) {
    for (TensorId id : stage.contraction.outputs) {
      if (e.source->find(tensors[id].name)) add_once(s.makes, tensors[id].name);
    }
    for (const Piece& piece : stage.contraction.pieces) {
      add_once(s.classes, to_string(classify(piece, stage.contraction, tensors).kind));
    }
  }
  if (s.makes.empty()) s.makes.push_back(launch.kernel->name);
  s.estimate_ns = cost.taken->cost.ns;
  s.most = largest_part(cost.taken->cost).name;
  return s;
}

LaunchSummary summary_of(const Executable& e, const Launch& loop,
                         const std::vector<LaunchSummary>& step, const std::string& number) {
  LaunchSummary s = begun(e, loop, number);
  s.makes.push_back(e.program.tensors[loop.arguments.back()].name);
  s.classes.push_back("loop of " + std::to_string(loop.loop->trips) + " steps");
  s.estimate_ns = static_cast<double>(loop.loop->trips) * estimated_ns(step);
  return s;
}

double estimated_ns(const std::vector<LaunchSummary>& launches) {
  double sum = 0;
  for (const LaunchSummary& s : launches) {
    bool in_loop = s.number.find('.') != std::string::npos;
    if (!in_loop) sum += s.estimate_ns.value_or(0);
  }
  return sum;
}

std::string to_text(const std::vector<LaunchSummary>& launches) {
  bool measured = std::any_of(launches.begin(), launches.end(),
                              [](const LaunchSummary& s) { return s.measured_ns.has_value(); });
  Row heading = {"#", "line", "estimate"};
  if (measured) heading.emplace_back("measured");
  size_t numbers = heading.size();
  heading.insert(heading.end(), {"bound by", "ceiling", "schedule", "makes"});
  std::vector<Row> rows = {heading};
  for (const LaunchSummary& s : launches) rows.push_back(row_of(s, measured));
  return aligned(rows, numbers) + microseconds(estimated_ns(launches)) + " in all by the model\n";
}

std::string json_fields(const LaunchSummary& s) {
  auto list = [](const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) out += (out.empty() ? "" : ",") + quoted(text);
    return "[" + out + "]";
  };
  std::string out = "\"line\":" + std::to_string(s.line) + ",\"makes\":" + list(s.makes) +
                    ",\"classes\":" + list(s.classes);
  out += ",\"ceiling_ns\":" + json_number(s.ceiling_ns) +
         ",\"bound\":" + quoted(s.memory_bound ? "memory" : "arithmetic");
  if (!s.most.empty()) out += ",\"most\":" + quoted(s.most);
  return out;
}

}  // namespace tile
