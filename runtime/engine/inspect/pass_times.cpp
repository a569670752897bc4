#include "runtime/engine/inspect/pass_times.h"

#include <array>
#include <charconv>

#include "runtime/engine/inspect/pass_list.h"

namespace tile {
namespace {

// Whatever the process's locale.
std::string milliseconds(double ns) {
  std::array<char, 64> text;
  char* end = std::to_chars(text.begin(), text.end(), ns * 1e-6, std::chars_format::fixed, 3).ptr;
  return {text.begin(), end};
}

std::string right(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

}  // namespace

void PassTimes::add(const PassInfo& pass, double ns) {
  std::lock_guard lock(mutex_);
  Row& row = rows_.try_emplace(pass.name, Row{pass}).first->second;
  ++row.runs;
  row.ns += ns;
}

void PassTimes::add(const PassTimes& before) {
  std::vector<Row> rows = before.rows();
  double total = before.total_ns();
  std::lock_guard lock(mutex_);
  for (const Row& more : rows) {
    Row& row = rows_.try_emplace(more.pass.name, Row{more.pass}).first->second;
    row.runs += more.runs;
    row.ns += more.ns;
  }
  total_ns_ += total;
}

void PassTimes::add_total(double ns) {
  std::lock_guard lock(mutex_);
  total_ns_ += ns;
}

std::vector<PassTimes::Row> PassTimes::rows() const {
  std::lock_guard lock(mutex_);
  std::vector<Row> rows;
  for (const PassInfo& pass : all_passes()) {
    auto at = rows_.find(pass.name);
    if (at != rows_.end()) rows.push_back(at->second);
  }
  return rows;
}

double PassTimes::total_ns() const {
  std::lock_guard lock(mutex_);
  return total_ns_;
}

std::string to_text(const PassTimes& times) {
  std::string text = "   time ms  share  runs  pass\n";
  double total = times.total_ns();
  auto line = [&](double ns, const std::string& runs, const std::string& what) {
    auto percent = static_cast<int>(total > 0 ? 100 * ns / total + 0.5 : 0);
    text += right(milliseconds(ns), 10) + right(std::to_string(percent), 6) + "%" + right(runs, 6) +
            "  " + what + "\n";
  };
  for (const PassTimes::Row& row : times.rows()) {
    line(row.ns, std::to_string(row.runs),
         std::string(to_string(row.pass.stage)) + ": " + std::string(row.pass.name));
  }
  line(total, "", "in all");
  return text;
}

std::string to_json(const PassTimes& times) {
  std::string rows;
  for (const PassTimes::Row& row : times.rows()) {
    rows += (rows.empty() ? "" : ", ");
    rows += "{\"stage\": \"" + std::string(to_string(row.pass.stage)) + "\", \"pass\": \"" +
            std::string(row.pass.name) + "\", \"runs\": " + std::to_string(row.runs) +
            ", \"ms\": " + milliseconds(row.ns) + "}";
  }
  return "{\"total_ms\": " + milliseconds(times.total_ns()) + ", \"passes\": [" + rows + "]}";
}

}  // namespace tile
