#include "runtime/engine/fleet/work_share.h"

#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "runtime/engine/records/processor_key.h"
#include "runtime/engine/records/tuning_record.h"

namespace tile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kClaim = ".claim.", kDone = ".done";
constexpr size_t kLargestClaim = 4096;  // bytes
constexpr double kBeats = 4;            // in a lease

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// When the process began, in ticks since the boot: with its number it names the process. Empty:
// there is none, or it has ended and nobody has asked how. See proc(5), /proc/pid/stat: the third
// field, the state, and the 22nd, counted behind the name's bracket.
std::string start_of(int64_t pid) {
  std::string line = first_line("/proc/" + std::to_string(pid) + "/stat");
  size_t behind_name = line.rfind(')');
  if (behind_name == std::string::npos) return "";
  std::istringstream fields(line.substr(behind_name + 1));
  std::string state, field;
  fields >> state;
  constexpr int kFields = 19;  // from the fourth to the 22nd
  for (int i = 0; i < kFields; ++i) fields >> field;
  return state == "Z" || state == "X" ? "" : field;
}

// Where numbers of processes mean the same processes: a boot of a machine, and its name space.
std::string place_of_processes() {
  std::array<char, 64> space{};
  ssize_t size = readlink("/proc/self/ns/pid", space.data(), space.size() - 1);
  std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  return size <= 0 || boot.empty() ? "" : boot + " " + space.data();
}

// Whether a claim's process cannot live any more, as far as this one can tell.
bool is_dead(const Json& claim) {
  static const std::string here = place_of_processes();
  if (!claim.is_object() || here.empty() || claim.value("place", "") != here) return false;
  auto pid = claim.value("pid", int64_t{0});
  if (pid <= 0) return false;
  if (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return true;
  // Where processes cannot be looked at, this one cannot be either.
  std::string own = start_of(getpid());
  return !own.empty() && start_of(pid) != claim.value("start", "");
}

}  // namespace

std::string worker_name() {
  uint64_t drawn = 0;
  if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) {
    drawn = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return digest(host_name() + " " + std::to_string(getpid()) + " " + std::to_string(drawn));
}

WorkShare::WorkShare(std::shared_ptr<const PrivateDirectory> directory, std::string name,
                     double lease_seconds)
    : directory_(std::move(directory)), name_(std::move(name)), lease_(lease_seconds) {
  try {
    heart_ = std::thread([this] { keep_fresh(); });
  } catch (const std::system_error&) {  // no thread to be had: claims are good for one lease
  }
}

WorkShare::~WorkShare() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ending_.notify_all();
  if (heart_.joinable()) heart_.join();
  for (const auto& [unit, file] : held_) directory_->remove(file);
}

void WorkShare::keep_fresh() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    ending_.wait_for(lock, std::chrono::duration<double>(lease_ / kBeats));
    for (const auto& [unit, file] : held_) directory_->touch(file);
  }
}

WorkShare::State WorkShare::state() const {
  State state;
  for (const PrivateDirectory::Entry& e : directory_->entries()) {
    if (PrivateDirectory::is_leftover(e.name)) continue;
    std::string unit = e.name.substr(0, e.name.find('.'));
    std::string_view rest = std::string_view(e.name).substr(unit.size());
    if (rest == kDone) state.done.insert(unit);
    if (!rest.starts_with(kClaim)) continue;
    rest.remove_prefix(kClaim.size());
    int number = -1;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || end != rest.data() + rest.size()) continue;
    int& last = state.claimed.try_emplace(unit, number).first->second;
    last = std::max(last, number);
  }
  return state;
}

// The clock is that of whoever keeps the files: a file touched now tells it.
bool WorkShare::is_stale(const std::string& claim) const {
  std::string why, clock = name_ + ".clock";
  std::optional<PrivateDirectory::Entry> seen = directory_->entry(claim);
  if (!seen) return false;  // given back just now
  auto text = directory_->read(claim, kLargestClaim, why);
  if (text) {
    std::string_view json(reinterpret_cast<const char*>(text->data()), text->size());
    Json parsed = Json::parse(json, nullptr, false);
    try {
      if (is_dead(parsed)) return true;
    } catch (const Json::exception&) {  // not of a claim: its age tells
    }
  }
  if (!directory_->touch(clock)) directory_->create(clock, "", why);
  std::optional<PrivateDirectory::Entry> now = directory_->entry(clock);
  if (!now) return false;
  return static_cast<double>(now->written.tv_sec - seen->written.tv_sec) > lease_;
}

bool WorkShare::claim(const std::string& unit, const State& state) {
  if (state.done.contains(unit)) return false;
  auto at = state.claimed.find(unit);
  int number = 0;
  if (at != state.claimed.end()) {
    if (!is_stale(unit + std::string(kClaim) + std::to_string(at->second))) return false;
    number = at->second + 1;
  }
  std::string file = unit + std::string(kClaim) + std::to_string(number), why;
  Json text;
  text["worker"] = name_;
  text["host"] = host_name();
  text["place"] = place_of_processes();
  text["pid"] = getpid();
  text["start"] = start_of(getpid());
  std::string line = text.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!directory_->create(file, line, why)) return false;
  std::lock_guard lock(mutex_);
  held_[unit] = file;
  // Since the state was read another worker may have done the unit, and removed its claims, or may
  // have taken over a claim of this number.
  std::string later = unit + std::string(kClaim) + std::to_string(number + 1);
  if (!directory_->entry(unit + std::string(kDone)) && !directory_->entry(later)) return true;
  directory_->remove(file);
  held_.erase(unit);
  return false;
}

bool WorkShare::finish(const std::string& unit) {
  std::string why;
  bool done = directory_->create(unit + std::string(kDone), name_ + "\n", why) || why.empty();
  give_back(unit);
  return done;
}

// The last claim goes first, so that none that was taken over is seen as the last.
void WorkShare::give_back(const std::string& unit) {
  std::lock_guard lock(mutex_);
  auto at = held_.find(unit);
  if (at == held_.end()) return;
  int number = std::stoi(at->second.substr(unit.size() + kClaim.size()));
  for (int i = number; i >= 0; --i) {
    directory_->remove(unit + std::string(kClaim) + std::to_string(i));
  }
  held_.erase(at);
}

}  // namespace tile
