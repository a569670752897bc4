#include "backends/cpu/probe/cpu_quota.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>

namespace tile::cpu {
namespace {

constexpr int kMost = 1 << 20;  // processors; more is no limit

std::optional<double> positive(const std::string& text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

// "max 100000" or "150000 100000": microseconds of each period. Linux, Documentation/admin-guide/
// cgroup-v2.rst, "cpu.max".
std::optional<double> quota_in(const std::string& file) {
  std::ifstream in(file);
  std::string quota, period;
  if (!(in >> quota >> period)) return std::nullopt;
  std::optional<double> of = positive(quota), each = positive(period);
  return of && each ? std::optional(*of / *each) : std::nullopt;
}

// Where version 2's hierarchy is mounted; empty: it is not.
std::string mount_point(const std::string& root) {
  std::ifstream in(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    // 30 23 0:26 / /sys/fs/cgroup rw … - cgroup2 cgroup rw
    size_t dash = line.find(" - cgroup2 ");
    if (dash == std::string::npos) continue;
    std::istringstream words(line.substr(0, dash));
    std::string word;
    for (int i = 0; i < 5 && words >> word; ++i) {
    }
    return word;
  }
  return "";
}

// The group's path below the mount: "0::/user.slice/…".
std::string group_of_process(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) return line.substr(3);
  }
  return "";
}

}  // namespace

int processor_quota(const std::string& root) {
  std::string mount = mount_point(root), group = group_of_process(root);
  if (mount.empty() || group.empty() || group.find("..") != std::string::npos) return 0;
  double least = kMost;
  for (;;) {
    if (std::optional<double> quota = quota_in(root + mount + group + "/cpu.max")) {
      least = std::min(least, *quota);
    }
    if (group.empty()) break;
    group.erase(group.find_last_of('/'));
  }
  return least < kMost ? std::max(1, static_cast<int>(std::ceil(least))) : 0;
}

}  // namespace tile::cpu
