#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/cli/tools/checks.h"
#include "runtime/cli/tools/tools.h"

namespace tile::cli {
namespace {

const char* name_of(Health health) {
  switch (health) {
    case Health::good:
      return "ok";
    case Health::note:
      return "note";
    case Health::slow:
      return "slow";
    case Health::fault:
      return "fault";
  }
  return "";
}

std::string text_of(const Finding& f) {
  std::string mark = name_of(f.health), out = mark + std::string(7 - mark.size(), ' ');
  out += f.subject + ": " + f.found + "\n";
  if (!f.advice.empty()) out += "       " + f.advice + "\n";
  return out;
}

}  // namespace

int command_doctor(bool json) {
  std::vector<Finding> all = machine_findings();
  for (Finding& f : product_findings()) all.push_back(std::move(f));
  auto count = [&](Health health) {
    return std::count_if(all.begin(), all.end(),
                         [&](const Finding& f) { return f.health == health; });
  };
  auto faults = count(Health::fault), slow = count(Health::slow);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& f : all) {
    list.push_back({{"subject", f.subject},
                    {"status", name_of(f.health)},
                    {"found", f.found},
                    {"advice", f.advice}});
    if (!json) std::cout << text_of(f);
  }
  if (json) {
    using Json = nlohmann::ordered_json;
    using nlohmann::detail::error_handler_t;
    Json whole = {{"faults", faults}, {"slow", slow}, {"findings", list}};
    // Variables may hold any bytes.
    std::cout << whole.dump(2, ' ', false, error_handler_t::replace) << "\n";
  } else {
    std::cout << faults << " faults, " << slow << " slow\n";
  }
  return faults == 0 ? 0 : 1;
}

}  // namespace tile::cli
