#include "tests/programs/campaign.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/programs/finding.h"

namespace tile::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kShrinkSeconds = 600;  // for one failure

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

int Campaign::run(uint64_t first, uint64_t count) {
  in_processes(
      options_.processes, first, count, [&](uint64_t item) { return one(item); },
      [&](uint64_t item, const std::string& line, const std::string& ended) {
        take(item, line, ended);
      });
  if (!options_.folder.empty() && items_.shrink) shrink_all();
  report("programs");
  return failed_ == 0 ? 0 : 1;
}

ItemResult Campaign::one(uint64_t item) const {
  Outcome outcome = outcome_of([&] { return items_.run(item); });
  Json line{{"runs", outcome.runs}};
  if (!outcome.refused.empty()) line["refused"] = outcome.refused;
  if (!outcome.wrong.empty()) line["wrong"] = outcome.wrong;
  return {text_of(line), outcome.context_lost};
}

void Campaign::take(uint64_t item, const std::string& line, const std::string& ended) {
  ++programs_;
  std::string wrong = ended;
  if (ended.empty()) {
    Json result = Json::parse(line);
    runs_ += result["runs"].get<uint64_t>();
    wrong = result.value("wrong", "");
    if (result.contains("refused")) refusal(item, result["refused"]);
  }
  if (!wrong.empty()) failure(item, wrong);
  if (std::chrono::steady_clock::now() - reported_ > std::chrono::seconds(30)) report("so far");
}

void Campaign::failure(uint64_t item, const std::string& wrong) {
  ++failed_;
  std::cout << text_of({{"seed", item}, {"what", items_.describe(item)}, {"wrong", wrong}})
            << std::endl;
  if (of_kind_[kind_of(wrong)]++ < options_.most) failures_.emplace_back(item, wrong);
}

void Campaign::refusal(uint64_t item, const std::string& why) {
  ++refused_;
  std::cout << text_of({{"seed", item}, {"what", items_.describe(item)}, {"refused", why}})
            << std::endl;
}

void Campaign::report(const char* what) {
  reported_ = std::chrono::steady_clock::now();
  double seconds = std::chrono::duration<double>(reported_ - begun_).count();
  std::cout << text_of({{what, programs_},
                        {"runs", runs_},
                        {"refused", refused_},
                        {"failed", failed_},
                        {"seconds", seconds}})
            << std::endl;
}

void Campaign::shrink_all() {
  std::filesystem::create_directories(options_.folder);
  size_t most = std::min(failures_.size(), static_cast<size_t>(options_.most));
  in_processes(
      {options_.processes.jobs, kShrinkSeconds, 1}, 0, most,
      [&](uint64_t i) {
        const auto& [item, wrong] = failures_[i];
        return ItemResult{items_.shrink(item, wrong, options_.folder)};
      },
      [&](uint64_t i, const std::string& line, const std::string& ended) {
        std::cout << (ended.empty() ? line : std::to_string(failures_[i].first) + ": " + ended)
                  << std::endl;
      });
}

}  // namespace tile::test
