#include "bench/report/html_report.h"

#include <cstdio>
#include <fstream>

#include "bench/commands/commands.h"
#include "bench/report/charts.h"
#include "bench/report/progress.h"

namespace tile::bench {
namespace {

constexpr const char* kStyle = R"(
:root { --ink:#1c2733; --soft:#5b6672; --paper:#fbfaf7; --card:#fff; --rule:#e2dfd5; --ours:#c2410c; --good:#3f7d4f;
  --peer0:#475569; --peer1:#2f7f93; --peer2:#94a3b8; --peer3:#a3b18a; --peer4:#8d6fa8; --peer5:#c9a227; --peer6:#5a8fd0; --peer7:#b5838d; }
@media (prefers-color-scheme: dark) { :root { --ink:#e6e2d8; --soft:#9aa5b1; --paper:#14181d; --card:#1b2127; --rule:#333a42; --ours:#fb923c; --good:#7fb98d;
  --peer0:#a9b6c6; --peer1:#5fb3c7; --peer2:#64748b; --peer3:#7f9172; --peer4:#b79bd0; --peer5:#e0c25a; --peer6:#84b1ea; --peer7:#d3a6af; } }
body { font:15px/1.5 system-ui,sans-serif; color:var(--ink); background:var(--paper); max-width:62rem; margin:2rem auto; padding:0 1rem; }
h1 { font-size:1.7rem; margin:0 } h2 { font-size:1.15rem; margin:2.6rem 0 .6rem; border-bottom:2px solid var(--rule); padding-bottom:.2rem } h3 { font-size:.95rem; margin:1.4rem 0 .2rem }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; font-size:.9rem } th,td { text-align:right; padding:.25rem .6rem; border-bottom:1px solid var(--rule) }
th { color:var(--soft); font-weight:600 } th:first-child,td:first-child { text-align:left } svg { width:100%; height:auto } svg text { font-size:11px; fill:var(--ink) }
tbody tr:hover,tr:hover td { background:var(--card) } .lead { color:var(--soft); margin:.2rem 0 1rem } .notes { color:var(--soft); font-size:.85rem; margin:.2rem 0; padding-left:1.1rem }
.figures { display:flex; flex-wrap:wrap; gap:.8rem; margin:1rem 0 } .figure { background:var(--card); border:1px solid var(--rule); border-radius:.5rem; padding:.6rem 1rem; min-width:8rem }
.figure b { display:block; font-size:1.45rem; line-height:1.2 } .figure span { color:var(--soft); font-size:.8rem }
.rule { stroke:var(--rule) } .roof { stroke:var(--ink); stroke-width:1.5; stroke-dasharray:5 3 } .dot { fill:var(--ours); fill-opacity:.8 } .ring { fill:none; stroke:var(--peer0); stroke-width:1.3 }
.whisker { stroke:var(--ink); stroke-width:1.5 } .aim { stroke:var(--ink); stroke-width:2.5 }
.curve { fill:none; stroke:var(--ours); stroke-opacity:.6 } .key { display:inline-block; width:.8rem; height:.8rem; margin:0 .3rem 0 1rem; border-radius:2px }
pre { background:var(--card); border:1px solid var(--rule); border-radius:.4rem; padding:.5rem .8rem; overflow-x:auto; font-size:.8rem } summary { color:var(--soft); cursor:pointer; margin:.4rem 0 }
.missed { color:var(--ours); font-weight:600 } .met { color:var(--good); font-weight:600 }
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
  out += cell(share_text(s.share_geomean, 0));
  if (s.geomean == 0) {
    return out + cell("no peer") + cell("") + cell("") + cell("") + cell("") + "</tr>";
  }
  out += cell(number("%.2f", s.geomean)) + cell(number("%.2f", s.worst->ratio())) +
         cell(escaped(s.worst->name));
  out += s.untrusted > 0 ? cell(std::to_string(s.untrusted), " class=\"missed\"") : cell("");
  if (s.target_geomean == 0) return out + cell("") + "</tr>";
  std::string aim = number("%.2f ", s.target_geomean);
  if (s.target_worst > 0) aim += "(" + number("%.2f", s.target_worst) + ") ";
  return out +
         (s.met() ? cell(aim + "met", " class=\"met\"")
                  : cell(aim + "missed", " class=\"missed\"")) +
         "</tr>";
}

// A program of one's own belongs to no class.
bool has_classes(const std::vector<Suite>& list) {
  return list.size() > 1 || (!list.empty() && list[0].name != Workload{}.suite);
}

std::string suite_table(const std::vector<Suite>& list) {
  std::string out =
      "<table><tr><th>class</th><th>cases</th><th>share of ceiling</th><th>best peer / ours</th>"
      "<th>worst</th><th>worst case</th><th>untrusted †</th><th>aim</th></tr>";
  for (const Suite& s : list) out += suite_row(s);
  return out + "</table>";
}

std::string key(const std::vector<std::string>& peers) {
  std::string out = "<p><span class=\"key\" style=\"background:var(--ours)\"></span>ours";
  for (size_t i = 0; i < peers.size(); ++i) {
    out += "<span class=\"key\" style=\"background:" + peer_colour(i) + "\"></span>" +
           escaped(peers[i]);
  }
  return out + "</p>";
}

std::string case_row(const Row& row, bool alone) {
  std::string out = "<tr>" + cell(escaped(row.name + (row.untrusted.empty() ? "" : " †")));
  if (!row.error.empty()) {
    return out + "<td colspan=\"6\" class=\"missed\">" + escaped(row.error) + "</td></tr>";
  }
  out += cell(time_text(row.median)) +
         cell(number("%.1f ", row.rate) + (row.measure == "gbps" ? "GB/s" : "GFLOP/s"));
  out += cell(share_text(row.share, 0));
  if (alone) return out + "</tr>";
  const Row::Peer* peer = row.best_peer();
  if (peer == nullptr) return out + cell("") + cell("") + cell("") + "</tr>";
  return out + cell(escaped(peer->name)) + cell(share_text(peer->share, 0)) +
         cell(number("%.2f", row.ratio())) + "</tr>";
}

std::string case_table(const Results& r, bool alone) {
  std::string out = "<table><tr><th>case</th><th>median</th><th>rate</th><th>of ceiling</th>";
  if (!alone) out += "<th>best peer</th><th>its share</th><th>best peer / ours</th>";
  out += "</tr>";
  for (const Row& row : r.rows) out += case_row(row, alone);
  out += "</table>";
  std::string reasons;
  for (const Row& row : r.rows) {
    if (row.untrusted.empty()) continue;
    reasons += "<li>" + escaped(row.name) + ": " + escaped(row.untrusted) + "</li>";
  }
  if (reasons.empty()) return out;
  return out + "<h3>† Rows not to be trusted</h3><ul class=\"notes\">" + reasons + "</ul>";
}

// Of each program that was measured kernel by kernel.
std::string programs(const Results& r) {
  std::string out;
  for (const Row& row : r.rows) {
    if (row.launches.empty()) continue;
    out += "<h3>" + escaped(row.name) + "</h3><p class=\"lead\">" + time_text(row.median) +
           " in the median, " + time_text(row.least) + " at least; compiled in " +
           number("%.1f ms; ", row.compile_ms) + quantity(row.bytes, "B") +
           " of inputs and outputs, " + quantity(row.temporary_bytes, "B") + " of temporaries";
    if (!row.beside.empty()) out += "; " + escaped(row.beside);
    out += "</p>" + kernels_html(row.launches);
  }
  return out.empty() ? out : "<h2>Kernels</h2>" + out;
}

std::string figure(const std::string& value, const std::string& what) {
  return "<div class=\"figure\"><b>" + value + "</b><span>" + what + "</span></div>";
}

// What the page says at a glance.
std::string figures(const Results& r, const std::vector<Suite>& list) {
  size_t aimed = 0, met = 0, compared = 0, ahead = 0;
  for (const Suite& s : list) {
    if (s.geomean == 0 || s.target_geomean == 0) continue;
    ++aimed;
    if (s.met()) ++met;
  }
  for (const Row& row : r.rows) {
    if (row.ratio() == 0) continue;
    ++compared;
    if (row.ratio() >= 1) ++ahead;
  }
  std::string out = "<div class=\"figures\">";
  if (aimed > 0) {
    out += figure(std::to_string(met) + " of " + std::to_string(aimed), "classes meet their aim");
  }
  if (compared > 0) {
    out += figure(std::to_string(ahead) + " of " + std::to_string(compared),
                  "cases as fast as the best peer or faster");
  }
  return out + figure(number("%.0f GFLOP/s", r.fma_gflops), "multiply-adds, measured in this run") +
         figure(number("%.1f GB/s", r.copy_gbps), "memory copied") +
         figure(number("%.1f GB/s", r.read_gbps), "memory read") + "</div>";
}

// The programs of one's own, by name; nothing more where there are classes of benchmarks.
std::string title(const Results& r, const std::vector<Suite>& list) {
  std::string out = "tile-bench";
  if (has_classes(list)) return out;
  for (const Row& row : r.rows) out += (&row == r.rows.data() ? ": " : ", ") + escaped(row.name);
  return out;
}

std::string introduction(const Results& r, const std::vector<Suite>& list) {
  // A CPU's description has its threads.
  bool said = r.device.find(" thread") != std::string::npos;
  std::string threads = said ? "" : ", " + std::to_string(r.threads) + " threads";
  std::string out = "<h1>" + title(r, list) + "</h1><p class=\"lead\">" + escaped(r.device) +
                    threads + ", " + escaped(r.date) + "</p>" + figures(r, list);
  if (r.peers.empty()) return out;
  out += "<ul class=\"notes\">";
  for (const std::string& peer : r.peers) out += "<li>" + escaped(peer) + "</li>";
  return out + "</ul>";
}

std::string classes(const std::vector<Suite>& list, bool alone) {
  std::string out = alone ? "<h2>Classes</h2>" : "<h2>Classes: the best peer's time over ours</h2>";
  std::string ratios = class_ratios(list);
  if (!ratios.empty()) {
    out +=
        "<p class=\"lead\">Bar: geometric mean; line: to the worst case; tick: the aim. Right of 1 "
        "ours is faster.</p>" +
        ratios;
  }
  return out + suite_table(list);
}

std::string shares(const std::vector<Suite>& list, const std::vector<std::string>& peers) {
  std::string out = "<h2>Share of the ceiling</h2>";
  if (!peers.empty()) out += key(peers);
  for (const Suite& s : list) {
    if (has_classes(list)) out += "<h3>" + escaped(s.name) + "</h3>";
    out += bars(s.rows, peers);
  }
  return out;
}

}  // namespace

std::string to_html(const Results& r) {
  std::vector<Suite> list = suites(r);
  std::string out =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>" +
      title(r, list) + "</title><style>";
  out += kStyle + ("</style>" + introduction(r, list));
  std::vector<std::string> peers = peer_names(r);
  const bool alone = peers.empty();
  if (has_classes(list)) out += classes(list, alone);
  out += "<h2>Roofline</h2>";
  if (!alone) out += "<p class=\"lead\">Dots: ours; rings: the best peer of the case.</p>";
  out += roofline(r) + shares(list, peers);
  std::string curves = tuning_curves(r);
  if (!curves.empty()) out += "<h2>Tuning: the best so far over the final time</h2>" + curves;
  return out + programs(r) + "<h2>Every case</h2>" + case_table(r, alone) + "</html>\n";
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
