// What is wrong with a request, told before anything is measured.
#include <algorithm>
#include <cmath>
#include <set>

#include "bench/commands/commands.h"
#include "bench/measure/workload.h"
#include "bench/peers/peer.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/files.h"

namespace tile::bench {
namespace {

// Whether they are found on this machine or not.
std::vector<std::string> known_peers(const std::string& folder) {
  std::set<std::string> names = {"loops"};  // our own, which is always there
  for (const std::string& missing : missing_peers({})) {
    names.insert(missing.substr(0, missing.find(':')));
  }
  for (const Case& c : read_cases(folder)) {
    for (const auto& [module, peer] : c.workload->peers) names.insert(module);
  }
  return {names.begin(), names.end()};
}

void check_peers(const Request& request) {
  if (request.peer_names.empty()) return;
  std::vector<std::string> known = known_peers(request.folder);
  for (const std::string& name : request.peer_names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    fail(Stage::run, "argument", {}, "unknown peer " + name + cli::suggestion(name, known),
         "the peers are " + cli::listed(known));
  }
}

}  // namespace

void check_request(const Request& request) {
  if (request.timing.rounds < 1) {
    fail(Stage::run, "argument", {}, "--rounds is " + std::to_string(request.timing.rounds),
         "at least one round is timed");
  }
  double ms = request.timing.round_ms;
  if (!std::isfinite(ms) || ms <= 0) {
    fail(Stage::run, "argument", {}, "--round-ms is no finite number above 0");
  }
  if (!request.json.empty() && request.json != "-") cli::require_place(request.json);
  if (!request.html.empty()) cli::require_place(request.html);
  check_peers(request);
}

}  // namespace tile::bench
