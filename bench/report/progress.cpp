#include "bench/report/progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace tile::bench {

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::show(const std::string& line) {
  if (!terminal_) return;
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (shown_) std::fprintf(stderr, "\r\033[K");
  shown_ = false;
}

std::string time_text(double ns) {
  if (!std::isfinite(ns)) return "-";
  const char* unit = ns < 1e3 ? "ns" : ns < 1e6 ? "us" : ns < 1e9 ? "ms" : "s";
  double value = ns < 1e3 ? ns : ns < 1e6 ? ns / 1e3 : ns < 1e9 ? ns / 1e6 : ns / 1e9;
  char text[48];
  std::snprintf(text, sizeof text, "%.3g %s", value, unit);
  if (value >= 999.5) std::snprintf(text, sizeof text, "%.0f %s", value, unit);
  return text;
}

}  // namespace tile::bench
