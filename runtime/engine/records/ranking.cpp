#include "runtime/engine/records/ranking.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tile {
namespace {

constexpr int kPolishes = 8;           // it converges in two or three
constexpr size_t kHostsToConfirm = 2;  // that timed a schedule
constexpr size_t kHostsThatTell = 3;   // from which on one alone is not believed
constexpr double kNearTie = 1.05;      // times the best: within the noise between machines
// Of a claim: what two machines of one kind may differ by, known or not known from other claims.
constexpr double kWrong = 1.15, kWrongAlone = 1.3;
constexpr double kDeviations = 4;
constexpr double kNormal = 1.4826;  // standard deviations in a median deviation of normal errors

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Logarithms of times, schedules by hosts.
class Table {
 public:
  explicit Table(const std::vector<TuningRecord>& records) {
    for (const TuningRecord& r : records) {
      cells_.push_back({number(schedules_, r.schedule), number(hosts_, r.host), std::log(r.ns)});
    }
  }
  // What is left of each schedule's logarithm once the hosts' are taken out.
  std::map<std::string, double> polished() const {
    std::vector<double> of_schedule(schedules_.size()), of_host(hosts_.size());
    for (int i = 0; i < kPolishes; ++i) {
      fit(of_schedule, of_host, &Cell::schedule, &Cell::host);
      // A table of one host has nothing to tell of it.
      if (hosts_.size() > 1) fit(of_host, of_schedule, &Cell::host, &Cell::schedule);
    }
    fit(of_schedule, of_host, &Cell::schedule, &Cell::host);
    std::map<std::string, double> result;
    for (const auto& [text, i] : schedules_) result[text] = of_schedule[i];
    return result;
  }
  size_t hosts() const { return hosts_.size(); }

 private:
  struct Cell {
    size_t schedule, host;
    double log_ns;
  };
  static size_t number(std::map<std::string, size_t>& known, const std::string& text) {
    return known.try_emplace(text, known.size()).first->second;
  }
  void fit(std::vector<double>& rows, const std::vector<double>& others, size_t Cell::* row,
           size_t Cell::* other) const {
    std::vector<std::vector<double>> rest(rows.size());
    for (const Cell& c : cells_) rest[c.*row].push_back(c.log_ns - others[c.*other]);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = median(std::move(rest[i]));
  }
  std::map<std::string, size_t> schedules_, hosts_;
  std::vector<Cell> cells_;
};

}  // namespace

std::vector<TuningRecord> latest(std::span<const TuningRecord> records) {
  std::map<std::pair<std::string, std::string>, TuningRecord> cells;
  for (const TuningRecord& r : records) {
    auto [at, added] = cells.try_emplace({r.schedule, r.host}, r);
    if (!added && r.time >= at->second.time) at->second = r;
  }
  std::vector<TuningRecord> list;
  for (auto& [cell, record] : cells) list.push_back(std::move(record));
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  return list;
}

std::vector<RankedSchedule> ranked(std::span<const TuningRecord> records,
                                   const std::string& own_host) {
  std::vector<TuningRecord> list = latest(records);
  std::erase_if(list, [](const TuningRecord& r) { return r.refuted; });
  if (list.empty()) return {};
  Table table(list);
  std::map<std::string, double> logarithms = table.polished();
  std::map<std::string, RankedSchedule> by_schedule;
  for (const TuningRecord& r : list) {
    RankedSchedule& s = by_schedule[r.schedule];
    ++s.hosts;
    s.samples += r.samples;
    bool own = r.host == own_host;
    s.confirmed = s.confirmed || own || s.hosts >= kHostsToConfirm;
    if (s.hosts == 1 || own || s.record.host != own_host) s.record = r;
  }
  std::vector<RankedSchedule> result;
  for (auto& [text, s] : by_schedule) {
    s.ns = std::exp(logarithms[text]);
    if (s.hosts == 1 && table.hosts() == 1) s.ns = s.record.ns;  // as it was stored
    result.push_back(std::move(s));
  }
  bool many = table.hosts() >= kHostsThatTell;
  std::stable_sort(result.begin(), result.end(), [&](const auto& a, const auto& b) {
    if (many && a.confirmed != b.confirmed) return a.confirmed;
    return a.ns != b.ns ? a.ns < b.ns : a.record.time > b.record.time;
  });
  return result;
}

std::vector<RankedSchedule> near_ties(const std::vector<RankedSchedule>& ranking, size_t most) {
  std::vector<RankedSchedule> chosen;
  if (ranking.empty()) return chosen;
  // The best that can be relied on bounds what is worth a race.
  auto sure = std::find_if(ranking.begin(), ranking.end(),
                           [](const RankedSchedule& s) { return s.hosts >= kHostsToConfirm; });
  double limit = kNearTie * (sure == ranking.end() ? ranking.front().ns : sure->ns);
  for (const RankedSchedule& s : ranking) {
    if (s.ns <= limit) chosen.push_back(s);
  }
  // Without any, the fastest needs others beside it.
  for (size_t i = 0; sure == ranking.end() && i < ranking.size(); ++i) {
    if (ranking[i].ns > limit) chosen.push_back(ranking[i]);
  }
  if (chosen.size() > most) chosen.resize(most);
  return chosen;
}

std::vector<RankedSchedule> further_ties(const std::vector<RankedSchedule>& ranking, size_t most,
                                         const std::set<std::string>& raced) {
  std::vector<RankedSchedule> ties = near_ties(ranking, most);
  bool done = std::all_of(ties.begin(), ties.end(), [&](const RankedSchedule& s) {
    return raced.contains(s.record.schedule);
  });
  return done ? std::vector<RankedSchedule>{} : ties;
}

std::vector<bool> wrong_claims(std::span<const Claim> claims) {
  std::vector<double> ratios, deviations, spreads;
  for (const Claim& c : claims) {
    ratios.push_back(std::log(c.measured_ns / c.ns));
    spreads.push_back(c.spread);
  }
  std::vector<bool> wrong(claims.size());
  if (claims.empty()) return wrong;
  constexpr size_t kEnough = 3;
  bool enough = claims.size() >= kEnough;
  double middle = enough ? median(ratios) : 0;
  for (double r : ratios) deviations.push_back(std::abs(r - middle));
  double scale = kNormal * std::max(enough ? median(deviations) : 0, median(spreads));
  double allowed = std::max(std::log(enough ? kWrong : kWrongAlone), kDeviations * scale);
  for (size_t i = 0; i < claims.size(); ++i) wrong[i] = deviations[i] > allowed;
  return wrong;
}

}  // namespace tile
