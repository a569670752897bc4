// Which schedule records speak for, and which records lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "runtime/engine/records/ranking.h"

namespace tile {
namespace {

TuningRecord record(const std::string& schedule, const std::string& host, double ns,
                    int64_t time = 1) {
  TuningRecord r{"kernel", schedule, ns};
  r.host = host;
  r.time = time;
  r.spread = 0.01;
  return r;
}

std::string first(const std::vector<TuningRecord>& records, const std::string& own = "nobody") {
  return ranked(records, own).at(0).record.schedule;
}

TEST(Ranking, TheFastestOfOneHost) {
  EXPECT_TRUE(ranked({}, "a").empty());
  std::vector<TuningRecord> records{record("x", "a", 10), record("y", "a", 9)};
  EXPECT_EQ(first(records), "y");
  EXPECT_EQ(ranked(records, "a")[0].ns, 9);
}

TEST(Ranking, OfEqualTimesTheLatest) {
  EXPECT_EQ(first({record("x", "a", 10, 2), record("y", "a", 10, 1)}), "x");
  EXPECT_EQ(first({record("x", "a", 10, 1), record("y", "a", 10, 2)}), "y");
}

// One timing in three is far too good: the median of the hosts does not see it.
TEST(Ranking, ALuckyTimingAmongThreeDoesNotRule) {
  EXPECT_EQ(first({record("x", "a", 100), record("x", "b", 101), record("x", "c", 99),
                   record("y", "a", 110), record("y", "b", 111), record("y", "c", 20)}),
            "x");
}

// A slow machine timed the better schedule alone with another: what they share tells its speed.
TEST(Ranking, SpeedsOfHostsAreTakenOut) {
  EXPECT_EQ(first({record("x", "fast", 100), record("z", "fast", 120), record("y", "slow", 150),
                   record("x", "slow", 200), record("z", "slow", 240)}),
            "y");
}

TEST(Ranking, WhatOneOfManyHostsSaysIsNotBelieved) {
  std::vector<TuningRecord> records{record("x", "a", 100), record("x", "b", 101),
                                    record("z", "c", 120), record("y", "c", 20)};
  EXPECT_EQ(first(records), "x");
  EXPECT_EQ(first(records, "c"), "y") << "this host has timed it itself";
  records.push_back(record("y", "d", 21));
  EXPECT_EQ(first(records), "y") << "two hosts say so";
}

TEST(Ranking, RefutedRecordsDoNotCount) {
  std::vector<TuningRecord> records{record("x", "a", 100), record("y", "a", 20, 1)};
  records.push_back(record("y", "a", 20, 2));
  records.back().refuted = true;
  EXPECT_EQ(first(records), "x");
  records.push_back(record("y", "a", 30, 3));
  EXPECT_EQ(first(records), "y") << "it was timed again";
}

TEST(NearTies, WhatARaceShouldDecide) {
  auto names = [](const std::vector<TuningRecord>& records, size_t most = 6) {
    std::string text;
    for (const RankedSchedule& s : near_ties(ranked(records, "me"), most))
      text += s.record.schedule;
    return text;
  };
  EXPECT_EQ(names({}), "");
  EXPECT_EQ(names({record("x", "a", 100)}), "x");
  EXPECT_EQ(names({record("x", "a", 100), record("x", "b", 100), record("y", "a", 103),
                   record("z", "a", 150)}),
            "xy");
  EXPECT_EQ(names({record("x", "a", 100), record("y", "b", 30), record("z", "c", 140)}), "yxz")
      << "nothing bounds what one host says of each";
  EXPECT_EQ(names({record("x", "a", 100), record("y", "b", 30), record("z", "c", 140)}, 2), "yx");
}

// Ten hosts of one kind, each with a schedule or two of eight, one of which lies: its time is right
// but for a factor. Every schedule is raced on another machine, with noise. What is found?
struct Trial {
  std::vector<TuningRecord> records;
  std::map<std::string, double> truth;
  size_t liar = 0;
};

class Fleet {
 public:
  explicit Fleet(uint32_t seed) : random_(seed) {}

  // `lie`: the factor is drawn from these two.
  Trial trial(double least, double most) {
    Trial t;
    for (int s = 0; s < 8; ++s) t.truth["s" + std::to_string(s)] = 100 * (1 + 0.12 * s);
    for (int h = 0; h < 10; ++h) {
      std::string schedule = "s" + std::to_string(draw(0, 8));
      double speed = std::exp(0.03 * normal());
      double ns = t.truth[schedule] * speed * noise();
      t.records.push_back(record(schedule, "host" + std::to_string(h), ns));
    }
    t.liar = draw(0, 10);
    t.records[t.liar].ns *= least + (most - least) * std::uniform_real_distribution<>()(random_);
    return t;
  }
  double noise() { return std::exp(0.02 * normal()); }

 private:
  double normal() { return std::normal_distribution<>()(random_); }
  size_t draw(size_t from, size_t to) {
    return std::uniform_int_distribution<size_t>(from, to - 1)(random_);
  }
  std::mt19937 random_;
};

struct Found {
  int tempting = 0;  // lies that put a schedule among the first that a merge races
  int liars = 0, honest = 0, best = 0;
};

// What `tile records verify` does, or `merge`, with the clock replaced.
void race(Fleet& fleet, const Trial& t, bool all, Found& count) {
  std::vector<TuningRecord> records = t.records;
  std::vector<RankedSchedule> chosen = ranked(records, "me");
  if (!all) chosen = near_ties(chosen, 6);
  auto is_liars = [&](const RankedSchedule& s) {
    return s.record.schedule == t.records[t.liar].schedule;
  };
  bool tempting = std::any_of(chosen.begin(), chosen.end(), is_liars);
  bool found_liar = false;
  std::set<std::string> raced;
  for (int round = 0; round < 4 && !chosen.empty(); ++round) {
    std::map<std::string, double> measured;
    for (const RankedSchedule& s : chosen) {
      const std::string& name = s.record.schedule;
      measured[name] = t.truth.at(name) * fleet.noise();
      raced.insert(name);
    }
    std::vector<Claim> claims;
    std::vector<size_t> about;
    for (size_t i = 0; i < records.size(); ++i) {
      const TuningRecord& r = records[i];
      if (r.refuted || r.host == "me" || !measured.contains(r.schedule)) continue;
      claims.push_back({r.ns, measured[r.schedule], r.spread});
      about.push_back(i);
    }
    std::vector<bool> wrong = wrong_claims(claims);
    for (size_t i = 0; i < wrong.size(); ++i) {
      if (!wrong[i]) continue;
      records[about[i]].refuted = true;
      found_liar = found_liar || about[i] == t.liar;
      count.honest += about[i] == t.liar ? 0 : 1;
    }
    for (const auto& [schedule, ns] : measured) records.push_back(record(schedule, "me", ns, 2));
    chosen = further_ties(ranked(records, "me"), 6, raced);
  }
  count.tempting += tempting ? 1 : 0;
  count.liars += found_liar ? 1 : 0;
  double least = std::numeric_limits<double>::infinity();
  for (const TuningRecord& r : t.records) least = std::min(least, t.truth.at(r.schedule));
  constexpr double kNextBest = 1.13;  // times the best
  count.best += t.truth.at(ranked(records, "me")[0].record.schedule) <= kNextBest * least ? 1 : 0;
}

Found found(bool all, double least, double most) {
  constexpr uint32_t kTrials = 100;
  Found count;
  for (uint32_t seed = 0; seed < kTrials; ++seed) {
    Fleet fleet(seed);
    Trial t = fleet.trial(least, most);
    race(fleet, t, all, count);
  }
  return count;
}

constexpr int kOfHundred = 95, kFalseAlarms = 30;  // of a hundred trials, of nine hundred records

TEST(WrongClaims, VerifyFindsTheLiarAmongTen) {
  for (auto [least, most] : {std::pair{0.2, 0.7}, std::pair{1.5, 4.0}}) {
    Found f = found(true, least, most);
    EXPECT_GE(f.liars, kOfHundred) << least << " to " << most;
    EXPECT_LE(f.honest, kFalseAlarms) << least << " to " << most;
    EXPECT_GE(f.best, kOfHundred) << least << " to " << most;
  }
}

// A merge races few: who lies about being fast is among them, unless others have timed the same
// schedule and the median does not see the lie.
TEST(WrongClaims, MergingFindsWhoWouldRule) {
  Found f = found(false, 0.2, 0.5);
  EXPECT_GT(f.tempting, 50);
  EXPECT_GE(100 * f.liars, kOfHundred * f.tempting);
  EXPECT_LE(f.honest, kFalseAlarms);
  EXPECT_GE(f.best, kOfHundred);
}

TEST(WrongClaims, WithoutALieThereIsNone) {
  Found f = found(true, 1, 1);
  EXPECT_LE(f.liars + f.honest, kFalseAlarms);
}

TEST(WrongClaims, FewClaims) {
  EXPECT_TRUE(wrong_claims({}).empty());
  std::vector<Claim> one{{100, 120, 0.01}};
  EXPECT_FALSE(wrong_claims(one)[0]) << "another machine may be so much slower";
  one[0].measured_ns = 200;
  EXPECT_TRUE(wrong_claims(one)[0]);
}

}  // namespace
}  // namespace tile
