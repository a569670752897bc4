#include "bench/html_report.h"

#include <cstdio>
#include <fstream>

#include "bench/charts.h"
#include "bench/commands.h"
#include "bench/progress.h"

namespace tile::bench {
namespace {

constexpr const char* kStyle = R"(
:root { --ink:#1c2733; --paper:#fbfaf7; --rule:#d9d6cc; --ours:#c2410c; --peer0:#475569; --peer1:#94a3b8; --peer2:#a3b18a; }
@media (prefers-color-scheme: dark) { :root { --ink:#e6e2d8; --paper:#14181d; --rule:#333a42; --ours:#fb923c; --peer0:#94a3b8; --peer1:#64748b; --peer2:#7f9172; } }
body { font:15px/1.5 system-ui,sans-serif; color:var(--ink); background:var(--paper); max-width:60rem; margin:2rem auto; padding:0 1rem; }
h1 { font-size:1.6rem; margin-bottom:.2rem } h2 { font-size:1.1rem; margin-top:2.2rem }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums } th,td { text-align:right; padding:.25rem .6rem; border-bottom:1px solid var(--rule) }
th:first-child,td:first-child { text-align:left } svg { width:100%; height:auto } svg text { font-size:11px; fill:var(--ink) }
.rule { stroke:var(--rule) } .roof { stroke:var(--ink); stroke-width:1.5; stroke-dasharray:5 3 } .dot { fill:var(--ours); fill-opacity:.75 }
.curve { fill:none; stroke:var(--ours); stroke-opacity:.6 } .key { display:inline-block; width:.8rem; height:.8rem; margin:0 .3rem 0 1rem }
.missed { color:var(--ours); font-weight:600 }
)";

std::string number(const char* format, double value) {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string cell(const std::string& text, const char* kind = "") {
  return std::string("<td") + kind + ">" + text + "</td>";
}

std::string suite_row(const Suite& s) {
  std::string out = "<tr>" + cell(escaped(s.name)) + cell(std::to_string(s.rows.size()));
  out += cell(number("%.0f %%", 100 * s.share_geomean));
  if (s.geomean == 0) return out + cell("no peer") + cell("") + cell("") + cell("") + "</tr>";
  out += cell(number("%.2f", s.geomean)) + cell(number("%.2f", s.worst->ratio())) +
         cell(escaped(s.worst->name));
  if (s.target_geomean == 0) return out + cell("") + "</tr>";
  std::string aim = number("%.2f", s.target_geomean) + " (" + number("%.2f", s.target_worst) + ") ";
  return out + (s.met() ? cell(aim + "met") : cell(aim + "missed", " class=\"missed\"")) + "</tr>";
}

std::string suite_table(const std::vector<Suite>& list) {
  std::string out =
      "<table><tr><th>class</th><th>cases</th><th>share of ceiling</th><th>best peer / ours</th>"
      "<th>worst</th><th>worst case</th><th>aim</th></tr>";
  for (const Suite& s : list) out += suite_row(s);
  return out + "</table>";
}

std::string key(const std::vector<std::string>& peers) {
  std::string out = "<p><span class=\"key\" style=\"background:var(--ours)\"></span>ours";
  for (size_t i = 0; i < peers.size(); ++i) {
    out += "<span class=\"key\" style=\"background:var(--peer" + std::to_string(i < 2 ? i : 2) +
           ")\"></span>" + escaped(peers[i]);
  }
  return out + "</p>";
}

std::string case_table(const Results& r) {
  std::string out =
      "<table><tr><th>case</th><th>median</th><th>rate</th><th>of ceiling</th><th>best peer / "
      "ours</th></tr>";
  for (const Row& row : r.rows) {
    out += "<tr>" + cell(escaped(row.name));
    if (!row.error.empty()) {
      out += "<td colspan=\"4\" class=\"missed\">" + escaped(row.error) + "</td></tr>";
      continue;
    }
    out += cell(time_text(row.median)) +
           cell(number("%.1f ", row.rate) + (row.measure == "gbps" ? "GB/s" : "GFLOP/s"));
    out += cell(number("%.0f %%", 100 * row.share())) +
           cell(row.ratio() > 0 ? number("%.2f", row.ratio()) : "") + "</tr>";
  }
  return out + "</table>";
}

std::string introduction(const Results& r) {
  std::string out = "<h1>tile-bench</h1><p>" + escaped(r.device) + ", " +
                    std::to_string(r.threads) + " threads, " + escaped(r.date) +
                    ". Ceilings measured in the same run: " + number("%.0f GFLOP/s", r.fma_gflops) +
                    number(", %.1f GB/s copied", r.copy_gbps) +
                    number(", %.1f GB/s read", r.read_gbps) + ".</p>";
  for (const std::string& peer : r.peers) out += "<p>Peer " + escaped(peer) + "</p>";
  return out;
}

}  // namespace

std::string to_html(const Results& r) {
  std::string out =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>tile-bench</title><style>";
  out += kStyle + ("</style>" + introduction(r));
  std::vector<Suite> list = suites(r);
  out += "<h2>Classes: the best peer's time over ours</h2>" + suite_table(list);
  std::string curves = tuning_curves(r);
  out += "<h2>Roofline</h2>" + roofline(r);
  std::vector<std::string> peers = peer_names(r);
  out += "<h2>Share of the ceiling</h2>" + key(peers);
  for (const Suite& s : list) out += "<h3>" + escaped(s.name) + "</h3>" + bars(s.rows, peers);
  if (!curves.empty()) out += "<h2>Tuning: the best so far over the final time</h2>" + curves;
  return out + "<h2>Every case</h2>" + case_table(r) + "</html>\n";
}

void write_html(const Results& results, const std::string& path) {
  std::ofstream file(path);
  file << to_html(results);
  if (!file.flush()) fail(Stage::run, "file", {}, "cannot write " + path);
}

int command_report(const std::string& json, const std::string& html) {
  write_html(read_results(json), html);
  return 0;
}

}  // namespace tile::bench
