#include "runtime/engine/inspect/pass_list.h"

#include <algorithm>
#include <optional>

#include "backends/code_passes.h"
#include "core/fusion/group.h"
#include "core/nest/passes/nest_passes.h"
#include "core/pipeline/pipeline.h"
#include "core/support/diagnostic.h"
#include "core/support/nearest_name.h"

namespace tile {
namespace {

std::string names_of(const std::vector<PassInfo>& passes) {
  std::string names;
  for (const PassInfo& p : passes) names += (names.empty() ? "" : ", ") + std::string(p.name);
  return names;
}

// The one that was surely meant, or all of them.
std::string hint_of(const std::string& name, const std::vector<PassInfo>& passes) {
  std::vector<std::string_view> names;
  for (const PassInfo& p : passes) names.push_back(p.name);
  std::optional<std::string_view> nearest = nearest_name(name, names);
  if (nearest) return "did you mean \"" + std::string(*nearest) + "\"?";
  return "one of: " + names_of(passes);
}

std::vector<PassInfo> optional_passes() {
  std::vector<PassInfo> passes = all_passes();
  std::erase_if(passes, [](const PassInfo& p) { return !p.optional; });
  return passes;
}

}  // namespace

std::vector<PassInfo> all_passes() {
  std::vector<PassInfo> all = {kParse, kDifferentiate, kBind, kCheckAssignments};
  auto append = [&](const auto& table) { all.insert(all.end(), table.begin(), table.end()); };
  append(passes());
  append(fusion_passes());
  all.insert(all.end(), {kNarrowArguments, kChooseSchedule, kLower, kTileTime});
  append(nest::nest_passes());
  append(kCodePasses);
  all.insert(all.end(), {kAvoidSpills, kPlanLaunches});
  return all;
}

std::string pass_table() {
  size_t stage_width = 0, name_width = 0;
  std::vector<PassInfo> all = all_passes();
  for (const PassInfo& p : all) {
    stage_width = std::max(stage_width, to_string(p.stage).size());
    name_width = std::max(name_width, p.name.size());
  }
  auto padded = [](std::string_view text, size_t width) {
    return std::string(text) + std::string(width - text.size() + 2, ' ');
  };
  std::string table;
  for (const PassInfo& p : all) {
    table += padded(to_string(p.stage), stage_width) + padded(p.name, name_width) +
             (p.optional ? "optional  " : "required  ") + std::string(p.summary) + "\n";
  }
  return table;
}

PassInfo require_pass(const std::string& name) {
  std::vector<PassInfo> all = all_passes();
  auto at = std::find_if(all.begin(), all.end(), [&](const PassInfo& p) { return p.name == name; });
  if (at != all.end()) return *at;
  fail(Stage::run, "argument", {}, "there is no pass \"" + name + "\"", hint_of(name, all));
}

void require_optional(const std::string& name) {
  std::vector<PassInfo> all = all_passes();
  bool known =
      std::any_of(all.begin(), all.end(), [&](const PassInfo& p) { return p.name == name; });
  if (!known) {
    fail(Stage::run, "argument", {}, "there is no pass \"" + name + "\"",
         hint_of(name, optional_passes()));
  }
  if (require_pass(name).optional) return;
  fail(Stage::run, "argument", {}, "the pass \"" + name + "\" cannot be left out",
       "optional ones are: " + names_of(optional_passes()));
}

}  // namespace tile
