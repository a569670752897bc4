#include "runtime/engine/tuning/machine_rates.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

namespace tile {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLargestFile = size_t{1} << 20;

std::string name_of(const std::string& identity) {
  char name[48];
  std::snprintf(name, sizeof name, "machine-%016llx.json",
                static_cast<unsigned long long>(XXH3_64bits(identity.data(), identity.size())));
  return name;
}

using Field = std::pair<const char*, double MachineRates::*>;
constexpr Field kFields[] = {
    {"tile_bf16_per_ns", &MachineRates::tile_bf16_per_ns},
    {"tile_i8_per_ns", &MachineRates::tile_i8_per_ns},
    {"l1_bytes_per_ns", &MachineRates::l1_bytes_per_ns},
    {"l2_bytes_per_ns", &MachineRates::l2_bytes_per_ns},
    {"l3_bytes_per_ns", &MachineRates::l3_bytes_per_ns},
    {"dram_bytes_per_ns", &MachineRates::dram_bytes_per_ns},
    {"all_fma_per_ns", &MachineRates::all_fma_per_ns},
    {"all_l2_bytes_per_ns", &MachineRates::all_l2_bytes_per_ns},
    {"all_l3_bytes_per_ns", &MachineRates::all_l3_bytes_per_ns},
    {"all_dram_bytes_per_ns", &MachineRates::all_dram_bytes_per_ns},
};

constexpr double kNotSlower = 0.75;  // of the slower one's rate
constexpr double kTogether = 0.45;   // of the threads' own rates: two may share one core
constexpr double kLaneBits = 32;

// Of each width at least one vector a nanosecond, and no less than the narrower one's.
bool plausible_arithmetic(const MachineRates& r) {
  double narrower = 0;
  for (const auto& [bits, rate] : r.fma_per_ns) {
    if (rate < bits / kLaneBits || rate < kNotSlower * narrower) return false;
    narrower = rate;
  }
  return r.all_fma_per_ns >= kTogether * r.threads * narrower && narrower > 0;
}

}  // namespace

bool plausible(const MachineRates& r) {
  bool measured = r.l1_bytes_per_ns > 0 && r.l2_bytes_per_ns > 0 && r.l3_bytes_per_ns > 0 &&
                  r.dram_bytes_per_ns > 0;
  bool ordered = r.l1_bytes_per_ns >= kNotSlower * r.l2_bytes_per_ns &&
                 r.l2_bytes_per_ns >= kNotSlower * r.l3_bytes_per_ns &&
                 r.l3_bytes_per_ns >= kNotSlower * r.dram_bytes_per_ns;
  if (!measured || !ordered) return false;
  if (r.threads < 2) return r.fma_per_ns.empty() || plausible_arithmetic(r);
  bool together = r.all_l2_bytes_per_ns >= kTogether * r.threads * r.l2_bytes_per_ns &&
                  r.all_l3_bytes_per_ns >= kNotSlower * r.l3_bytes_per_ns &&
                  r.all_dram_bytes_per_ns >= kNotSlower * r.dram_bytes_per_ns;
  return together && (r.fma_per_ns.empty() || plausible_arithmetic(r));
}

MachineRates raised(MachineRates r) {
  auto raise = [](double& rate, double least) {
    if (rate > 0) rate = std::max(rate, least);
  };
  raise(r.l3_bytes_per_ns, r.dram_bytes_per_ns);
  raise(r.l2_bytes_per_ns, r.l3_bytes_per_ns);
  raise(r.l1_bytes_per_ns, r.l2_bytes_per_ns);
  double widest = 0;
  for (auto& [bits, rate] : r.fma_per_ns) {
    raise(rate, std::max(bits / kLaneBits, widest));
    widest = rate;
  }
  raise(r.all_fma_per_ns, kTogether * r.threads * widest);
  raise(r.all_l2_bytes_per_ns, kTogether * r.threads * r.l2_bytes_per_ns);
  raise(r.all_l3_bytes_per_ns, r.l3_bytes_per_ns);
  raise(r.all_dram_bytes_per_ns, r.dram_bytes_per_ns);
  return r;
}

std::optional<MachineRates> load_rates(const PrivateDirectory* directory,
                                       const std::string& identity, std::string& why) {
  std::optional<std::vector<std::byte>> file;
  if (directory != nullptr) file = directory->read(name_of(identity), kLargestFile, why);
  if (!file) return std::nullopt;
  std::string_view text(reinterpret_cast<const char*>(file->data()), file->size());
  Json json = Json::parse(text, nullptr, false);
  MachineRates rates;
  try {
    why = "of another machine";
    if (json.at("identity").get<std::string>() != identity) return std::nullopt;
    why = "damaged";
    for (const auto& [name, field] : kFields) rates.*field = json.at(name).get<double>();
    rates.l3_bytes = json.at("l3_bytes").get<int64_t>();
    rates.threads = json.at("threads").get<int>();
    for (const auto& [bits, rate] : json.at("fma_per_ns").items()) {
      rates.fma_per_ns[std::stoi(bits)] = rate.get<double>();
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    why = "damaged";
    return std::nullopt;
  }
  why = plausible(rates) ? "" : "rates that no machine has";
  return why.empty() ? std::optional(rates) : std::nullopt;
}

bool store_rates(const PrivateDirectory* directory, const std::string& identity,
                 const MachineRates& rates) {
  if (directory == nullptr) return false;
  Json json, fma;
  for (const auto& [bits, rate] : rates.fma_per_ns) fma[std::to_string(bits)] = rate;
  json["fma_per_ns"] = fma;
  for (const auto& [name, field] : kFields) json[name] = rates.*field;
  json["l3_bytes"] = rates.l3_bytes;
  json["threads"] = rates.threads;
  json["identity"] = identity;
  std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n", why;
  return directory->replace(name_of(identity), std::as_bytes(std::span(text)), why);
}

std::string describe(const MachineRates& r) {
  std::string text = "measured: multiply-adds per ns";
  char part[200];
  for (const auto& [bits, rate] : r.fma_per_ns) {
    std::snprintf(part, sizeof part, " %.3g (%d bits)", rate, bits);
    text += part;
  }
  if (r.tile_bf16_per_ns > 0 || r.tile_i8_per_ns > 0) {
    std::snprintf(part, sizeof part, "; of tiles bf16 %.3g, bytes %.3g", r.tile_bf16_per_ns,
                  r.tile_i8_per_ns);
    text += part;
  }
  std::snprintf(part, sizeof part,
                "; bytes per ns L1 %.3g, L2 %.3g, L3 %.3g up to %lld MiB, memory %.3g",
                r.l1_bytes_per_ns, r.l2_bytes_per_ns, r.l3_bytes_per_ns,
                static_cast<long long>(r.l3_bytes >> 20), r.dram_bytes_per_ns);
  text += part;
  std::snprintf(part, sizeof part, "; %d threads together %.3g, L2 %.3g, L3 %.3g, memory %.3g",
                r.threads, r.all_fma_per_ns, r.all_l2_bytes_per_ns, r.all_l3_bytes_per_ns,
                r.all_dram_bytes_per_ns);
  return text + part;
}

}  // namespace tile
