// Many items, each a program under a configuration, in processes; what they give, as JSON lines.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/programs/configuration.h"
#include "tests/programs/processes.h"

namespace tile::test {

struct CampaignOptions {
  Processes processes;
  std::string folder;  // for what is shrunk; empty: nothing is
  int most = 20;       // failures of a kind, and in all, that are shrunk
};

struct Items {
  // In a process of the campaign; what it throws is a failure.
  std::function<Outcome(uint64_t)> run;
  std::function<std::string(uint64_t)> describe;  // what was run, for people
  std::function<std::string(uint64_t, const std::string& wrong, const std::string& folder)>
      shrink;  // a line that says what came of it
};

class Campaign {
 public:
  Campaign(CampaignOptions options, Items items)
      : options_(std::move(options)), items_(std::move(items)) {}

  // 0: all agree, 1: some do not.
  int run(uint64_t first, uint64_t count);

 private:
  ItemResult one(uint64_t item) const;
  void take(uint64_t item, const std::string& line, const std::string& ended);
  void failure(uint64_t item, const std::string& wrong);
  void refusal(uint64_t item, const std::string& why);
  void report(const char* what);
  void shrink_all();

  CampaignOptions options_;
  Items items_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now(),
                                        reported_ = begun_;
  uint64_t programs_ = 0, runs_ = 0, refused_ = 0, failed_ = 0;
  std::map<std::string, int> of_kind_;
  std::vector<std::pair<uint64_t, std::string>> failures_;
};

}  // namespace tile::test
