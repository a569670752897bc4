#include "runtime/ranks/mesh_figures.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

#include "backends/build_identity.h"
#include "runtime/ranks/kept.h"
#include "runtime/ranks/tell_all.h"

namespace tile {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLargestFile = size_t{1} << 20;
// Between GPUs of one machine. Bytes per nanosecond: what collectives of NCCL reach on two H100s
// (measured: 228 to 236 GB/s). Nanoseconds to start one: an estimate that nothing has measured yet.
constexpr Link kMessages{12000, 200};
// [measured] Copy engines of two H200, both ways at once beside products: how long sums of 256 MiB
// end behind the products that they travel beside tells 360 to 380 GB/s.
constexpr Link kCopies{12000, 360};
// What is measured: the fastest of some small messages, and of some that take longer by far.
constexpr size_t kSmallBytes = 8, kLargeBytes = size_t{1} << 18;
constexpr int kSmallTimes = 8, kLargeTimes = 3;
// Beyond these a measurement was disturbed, or its clock was.
constexpr double kLeastLatency = 50, kMostLatency = 1e8;
constexpr double kLeastBytes = 1e-3, kMostBytes = 1e4;

std::string name_of(const std::string& identity) {
  char name[48];
  std::snprintf(name, sizeof name, "mesh-%016llx.json",
                static_cast<unsigned long long>(XXH3_64bits(identity.data(), identity.size())));
  return name;
}

double nanoseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

// Two digits: measurements differ by more.
double rounded(double value) {
  double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return std::round(value / unit) * unit;
}

Link plausible(const Link& link) {
  return {rounded(std::clamp(link.latency_ns, kLeastLatency, kMostLatency)),
          rounded(std::clamp(link.bytes_per_ns, kLeastBytes, kMostBytes))};
}

// A rank and its neighbours around an axis.
struct Ring {
  size_t next = 0, last = 0;
};
Ring ring_of(const Mesh& mesh, size_t axis, size_t rank) {
  size_t stride = 1;
  for (size_t a = axis + 1; a < mesh.axes.size(); ++a) {
    stride *= static_cast<size_t>(mesh.axes[a].size);
  }
  auto size = static_cast<size_t>(mesh.axes[axis].size);
  size_t at = rank / stride % size, first = rank - at * stride;
  return {first + (at + 1) % size * stride, first + (at + size - 1) % size * stride};
}

class LinkProbe {
 public:
  LinkProbe(const Mesh& mesh, Transport& transport)
      : mesh_(mesh), transport_(transport), memory_(std::make_shared<Memory>()) {
    memory_->sent.resize(kLargeBytes);
    memory_->received.resize(kLargeBytes);
  }

  Link along(size_t axis) {
    ring_ = ring_of(mesh_, axis, transport_.rank());
    what_ = "measurement of messages along " + mesh_.axes[axis].name;
    double small = fastest(kSmallBytes, kSmallTimes), large = fastest(kLargeBytes, kLargeTimes);
    double bytes = static_cast<double>(kLargeBytes) / std::max(1.0, large - small);
    return {small, bytes};
  }

 private:
  struct Memory {
    std::vector<std::byte> sent, received;
  };

  double fastest(size_t bytes, int times) {
    double least = kMostLatency;
    SentPart sent{ring_.next, memory_->sent.data(), bytes};
    ReceivedPart received{ring_.last, memory_->received.data(), bytes};
    for (int i = 0; i < times; ++i) {
      auto begin = std::chrono::steady_clock::now();
      try {
        transport_.exchange({&sent, 1}, {&received, 1}, what_);
      } catch (...) {
        if (transport_.in_flight()) keep_for_ever(memory_);
        throw;
      }
      least = std::min(least, nanoseconds_since(begin));
    }
    return least;
  }

  const Mesh& mesh_;
  Transport& transport_;
  std::shared_ptr<Memory> memory_;
  Ring ring_;
  std::string what_;
};

// What each rank says of itself before anything is measured.
struct Introduction {
  uint64_t host = 0;
  uint64_t measures = 0;  // 0: its engine is to be deterministic
  RankRates rates;
};

Introduction introduction_of(const Engine& engine) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return {XXH3_64bits(host, std::strlen(host)), engine.options().deterministic ? 0u : 1u,
          rank_rates(engine.target())};
}

std::string identity_of(const Mesh& mesh, const std::vector<Introduction>& all) {
  std::string identity = build_identity() + "\n" + to_string(mesh) + "\n";
  for (const Introduction& one : all) identity += std::to_string(one.host) + " ";
  return identity;
}

// Rank 0's links, where it has kept some, on all ranks.
std::optional<std::vector<Link>> kept_links(const Engine& engine, const std::string& identity,
                                            const Mesh& mesh, Transport& transport) {
  std::vector<Link> told(mesh.axes.size() + 1, Link{0, 0});
  if (transport.rank() == 0) {
    auto known = load_links(engine.directory(), identity, mesh.axes.size());
    if (known) {
      std::copy(known->begin(), known->end(), told.begin() + 1);
      told[0] = {1, 1};
    }
  }
  std::vector<std::byte> all =
      bytes_of_all(transport, std::as_bytes(std::span(told)), "figures of the mesh");
  std::memcpy(told.data(), all.data(), told.size() * sizeof(Link));
  if (told[0] == Link{0, 0}) return std::nullopt;
  return std::vector<Link>(told.begin() + 1, told.end());
}

}  // namespace

std::vector<Link> measured_links(const Mesh& mesh, Transport& transport) {
  LinkProbe probe(mesh, transport);
  std::vector<Link> own;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    own.push_back(mesh.axes[axis].size > 1 ? probe.along(axis) : Link{});
  }
  std::vector<std::byte> bytes =
      bytes_of_all(transport, std::as_bytes(std::span(own)), "figures of the mesh");
  std::vector<Link> all(own.size() * transport.ranks());
  std::memcpy(all.data(), bytes.data(), bytes.size());
  std::vector<Link> slowest(all.begin(), all.begin() + static_cast<ptrdiff_t>(own.size()));
  for (size_t i = 0; i < all.size(); ++i) {
    Link& link = slowest[i % own.size()];
    link.latency_ns = std::max(link.latency_ns, all[i].latency_ns);
    link.bytes_per_ns = std::min(link.bytes_per_ns, all[i].bytes_per_ns);
  }
  for (Link& link : slowest) link = plausible(link);
  return slowest;
}

ChoiceOptions figures_of(const Engine& engine, const Mesh& mesh, Transport& transport,
                         Linking linking) {
  auto all = told_by_all(transport, introduction_of(engine), "figures of the mesh");
  ChoiceOptions figures;
  bool measures = std::all_of(all.begin(), all.end(),
                              [](const Introduction& one) { return one.measures != 0; });
  if (measures) figures.rates = all[0].rates;
  if (linking != Linking::none) {
    figures.links.any = linking == Linking::copies ? kCopies : kMessages;
  } else if (measures && transport.ranks() > 1) {
    std::string identity = identity_of(mesh, all);
    std::optional<std::vector<Link>> links = kept_links(engine, identity, mesh, transport);
    if (!links) {
      links = measured_links(mesh, transport);
      bool keeps = transport.rank() == 0 && engine.writes_files();
      if (keeps) store_links(engine.directory(), identity, *links);
    }
    figures.links.axes = std::move(*links);
  }
  return figures;
}

std::optional<std::vector<Link>> load_links(const PrivateDirectory* directory,
                                            const std::string& identity, size_t axes) {
  std::string why;
  std::optional<std::vector<std::byte>> file;
  if (directory != nullptr) file = directory->read(name_of(identity), kLargestFile, why);
  if (!file) return std::nullopt;
  std::string_view text(reinterpret_cast<const char*>(file->data()), file->size());
  Json json = Json::parse(text, nullptr, false);
  std::vector<Link> links;
  try {
    if (json.at("identity").get<std::string>() != identity) return std::nullopt;
    for (const Json& axis : json.at("axes")) {
      Link link{axis.at("latency_ns").get<double>(), axis.at("bytes_per_ns").get<double>()};
      bool sound = link.latency_ns >= kLeastLatency && link.latency_ns <= kMostLatency &&
                   link.bytes_per_ns >= kLeastBytes && link.bytes_per_ns <= kMostBytes;
      if (!sound) return std::nullopt;
      links.push_back(link);
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // a damaged file is none
    return std::nullopt;
  }
  return links.size() == axes ? std::optional(std::move(links)) : std::nullopt;
}

bool store_links(const PrivateDirectory* directory, const std::string& identity,
                 const std::vector<Link>& links) {
  if (directory == nullptr) return false;
  Json json, axes = Json::array();
  for (const Link& link : links) {
    axes.push_back({{"latency_ns", link.latency_ns}, {"bytes_per_ns", link.bytes_per_ns}});
  }
  json["axes"] = axes;
  json["identity"] = identity;
  std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n", why;
  return directory->replace(name_of(identity), std::as_bytes(std::span(text)), why);
}

}  // namespace tile
