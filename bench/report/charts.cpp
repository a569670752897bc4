#include "bench/report/charts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/report/progress.h"

namespace tile::bench {
namespace {

std::string text(const char* format, auto... values) {
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

std::string open_svg(double width, double height, const std::string& title) {
  return text("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">", width, height,
              title.c_str());
}
std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return text("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>", x1, y1, x2,
              y2, style);
}
std::string label(double x, double y, const char* anchor, const std::string& words) {
  return text("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor) + escaped(words) +
         "</text>";
}

// A logarithmic axis onto pixels.
struct Axis {
  double low, high;   // values
  double begin, end;  // pixels
  double operator()(double value) const {
    double part = std::log(std::max(value, 1e-30) / low) / std::log(high / low);
    return begin + std::clamp(part, 0.0, 1.0) * (end - begin);
  }
};

struct Frame {
  Axis x, y;
};

std::string grid(const Frame& f) {
  std::string out;
  for (double v = f.x.low; v <= f.x.high * 1.001; v *= 10) {
    out += line(f.x(v), f.y.begin, f.x(v), f.y.end, "rule");
    out += label(f.x(v), f.y.begin + 16, "middle", text("%g", v));
  }
  for (double v = f.y.low; v <= f.y.high * 1.001; v *= 10) {
    out += line(f.x.begin, f.y(v), f.x.end, f.y(v), "rule");
    out += label(f.x.begin - 6, f.y(v) + 4, "end", text("%g", v));
  }
  out += label((f.x.begin + f.x.end) / 2, f.y.begin + 34, "middle", "operations for each byte");
  return out + label(f.x.begin, f.y.end - 8, "start", "10^9 operations in a second");
}

std::string roof(const Results& r, const Frame& f) {
  double knee = r.fma_gflops / r.copy_gbps;
  std::string out =
      line(f.x(f.x.low), f.y(f.x.low * r.copy_gbps), f.x(knee), f.y(r.fma_gflops), "roof");
  out += line(f.x(knee), f.y(r.fma_gflops), f.x(f.x.high), f.y(r.fma_gflops), "roof");
  out += label(f.x.end, f.y(r.fma_gflops) - 6, "end",
               text("%.0f GFLOP/s multiply-adds", r.fma_gflops));
  // Before the slope, which rises to the right.
  double middle = std::sqrt(f.x.low * knee);
  return out + label(f.x(middle) - 8, f.y(middle * r.copy_gbps) - 4, "end",
                     text("%.1f GB/s copied", r.copy_gbps));
}

std::string dot(const Frame& f, const Row& row) {
  double x = f.x(row.operations / row.bytes);
  std::string out;
  if (const Row::Peer* peer = row.best_peer()) {
    double rate = row.operations / peer->median;
    out += text("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" class=\"ring\"><title>", x, f.y(rate)) +
           escaped(row.name + ", " + peer->name) + text(": %.1f GFLOP/s</title></circle>", rate);
  }
  double rate = row.operations / row.median;
  out += text("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"dot\"><title>", x, f.y(rate));
  return out + escaped(row.name) + text(": %.1f GFLOP/s, ", rate) + share_text(row.share, 0) +
         " of its ceiling" + "</title></circle>";
}

bool drawable(const Row& row) {
  return row.error.empty() && row.operations > 0 && row.bytes > 0 && row.median > 0;
}

std::string bar(double x, double y, double width, const std::string& colour,
                const std::string& words) {
  return text("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"8\" rx=\"1.5\" style=\"fill:", x,
              y, std::max(width, 0.5)) +
         colour + "\"><title>" + escaped(words) + "</title></rect>";
}

constexpr double kNames = 210, kBars = 560;

std::string row_bars(const Row& row, const std::vector<std::string>& peers, double y) {
  double scale = kBars / 1.1;
  std::string mark = row.untrusted.empty() ? "" : " †";
  std::string out = label(kNames - 8, y + 9, "end", row.name + mark);
  out +=
      bar(kNames, y, std::min(row.share, 1.1) * scale, "var(--ours)",
          "ours: " + time_text(row.median) + ", " + share_text(row.share, 0) + " of the ceiling");
  for (const Row::Peer& p : row.peers) {
    auto which = static_cast<size_t>(std::find(peers.begin(), peers.end(), p.name) - peers.begin());
    y += 10;
    out += bar(kNames, y, std::min(p.share, 1.1) * scale, peer_colour(which),
               p.name + ": " + time_text(p.median) + ", " + share_text(p.share, 0) +
                   text(" of the ceiling, %.2f times ours", p.ratio));
  }
  return out;
}

std::string curve(const Row& row, double width, double height) {
  if (row.tuning.empty()) return "";
  std::string points;
  double last = row.tuning.back();
  size_t count = row.tuning.size();
  for (size_t i = 0; i < count; ++i) {
    double worse = std::min(row.tuning[i] / last, 3.0);
    points += text("%.1f,%.1f ",
                   50 + (width - 60) * static_cast<double>(i) /
                            std::max<double>(1, static_cast<double>(count - 1)),
                   height - 30 - (height - 50) * (worse - 1) / 2);
  }
  return "<polyline class=\"curve\" points=\"" + points + "\"><title>" + escaped(row.name) +
         ": best " + time_text(last) + "</title></polyline>";
}

}  // namespace

std::string escaped(const std::string& words) {
  std::string out;
  for (char c : words) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::vector<std::string> peer_names(const Results& results) {
  std::vector<std::string> names;
  for (const Row& row : results.rows) {
    for (const Row::Peer& p : row.peers) {
      if (std::find(names.begin(), names.end(), p.name) == names.end()) names.push_back(p.name);
    }
  }
  return names;
}

std::string peer_colour(size_t place) {
  constexpr size_t kColours = 8;
  return "var(--peer" + std::to_string(place % kColours) + ")";
}

namespace {

constexpr double kRow = 22;

std::string class_row(const Suite& s, const Axis& x, double y) {
  double middle = y + kRow / 2;
  std::string out = label(x.begin - 8, middle + 4, "end", s.name);
  if (s.geomean == 0) return out;
  bool aimed = s.target_geomean > 0;
  const char* colour = !aimed || s.met() ? "var(--good)" : "var(--ours)";
  out += text(
      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" style=\"fill:%s\">",
      std::min(x(1), x(s.geomean)), y + 4, std::abs(x(s.geomean) - x(1)) + 1, kRow - 8, colour);
  out += "<title>" + escaped(s.name) +
         text(": geometric mean %.2f, worst %.2f", s.geomean, s.worst->ratio()) + " (" +
         escaped(s.worst->name) + ")</title></rect>";
  out += line(x(s.worst->ratio()), middle, x(s.geomean), middle, "whisker");
  if (aimed) out += line(x(s.target_geomean), y + 1, x(s.target_geomean), y + kRow - 1, "aim");
  return out + label(x.end + 8, middle + 4, "start", text("%.2f", s.geomean));
}

}  // namespace

std::string class_ratios(const std::vector<Suite>& list) {
  bool compared =
      std::any_of(list.begin(), list.end(), [](const Suite& s) { return s.geomean > 0; });
  if (!compared) return "";
  Axis x{0.25, 16, 200, 720};
  double height = kRow * static_cast<double>(list.size()) + 40;
  std::string out = open_svg(800, height, "the best peer's time over ours, by class");
  for (double v = x.low; v <= x.high * 1.001; v *= 2) {
    out += line(x(v), 4, x(v), height - 30, v == 1 ? "roof" : "rule");
    out += label(x(v), height - 14, "middle", text("%g", v));
  }
  double y = 6;
  for (const Suite& s : list) {
    out += class_row(s, x, y);
    y += kRow;
  }
  return out + "</svg>";
}

std::string roofline(const Results& results) {
  if (results.fma_gflops <= 0 || results.copy_gbps <= 0) return "";
  Frame f{{0.01, 1000, 60, 780}, {0.1, 1000, 400, 30}};
  while (f.y.high < results.fma_gflops * 1.2) f.y.high *= 10;
  std::string out = open_svg(800, 450, "roofline") + grid(f) + roof(results, f);
  // More names would lie on each other.
  constexpr size_t kMostNames = 4;
  for (const Row& row : results.rows) {
    if (!drawable(row)) continue;
    out += dot(f, row);
    if (results.rows.size() > kMostNames) continue;
    // To the left and to the right in turns, as programs to compare are near each other.
    bool left = (&row - results.rows.data()) % 2 == 0;
    out += label(f.x(row.operations / row.bytes) + (left ? -9 : 9),
                 f.y(row.operations / row.median) + 4, left ? "end" : "start", row.name);
  }
  return out + "</svg>";
}

std::string bars(const std::vector<const Row*>& rows, const std::vector<std::string>& peers) {
  double height = 24;
  for (const Row* row : rows) height += 20 + 10 * static_cast<double>(row->peers.size());
  std::string out = open_svg(kNames + kBars + 10, height, "share of the ceiling");
  double full = kNames + kBars / 1.1;
  out += line(full, 0, full, height - 20, "roof") + label(full, height - 6, "middle", "ceiling");
  double y = 4;
  for (const Row* row : rows) {
    out += row_bars(*row, peers, y);
    y += 20 + 10 * static_cast<double>(row->peers.size());
  }
  return out + "</svg>";
}

std::string tuning_curves(const Results& results) {
  constexpr double kWidth = 800, kHeight = 260;
  std::string lines;
  for (const Row& row : results.rows) {
    if (row.tuning.size() > 1) lines += curve(row, kWidth, kHeight);
  }
  if (lines.empty()) return "";
  std::string out = open_svg(kWidth, kHeight, "best so far");
  out += line(50, kHeight - 30, kWidth - 10, kHeight - 30, "rule") +
         line(50, 20, 50, kHeight - 30, "rule");
  out += label(44, kHeight - 26, "end", "1x") + label(44, 26, "end", "3x");
  return out + label(kWidth / 2, kHeight - 8, "middle", "candidates measured") + lines + "</svg>";
}

}  // namespace tile::bench
