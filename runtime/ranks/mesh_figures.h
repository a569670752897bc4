// What the ranks of a mesh do in a nanosecond, and what a message between them takes: the figures
// by which layouts are chosen, the same on all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/distribute/choice/choice.h"
#include "core/distribute/mesh/mesh.h"
#include "runtime/engine/cache/private_directory.h"
#include "runtime/engine/engine.h"
#include "runtime/transport/transport.h"

namespace tile {

// How the devices of all ranks exchange: not by themselves; by a library's messages; by copies, as
// all of them reach each other's memory.
enum class Linking : uint8_t { none, messages, copies };

// All ranks together. Rates are those of rank 0's engine. The links of each axis are measured once
// for a mesh of these machines (about a millisecond for an axis) and kept beside rank 0's disk
// cache, as rates are. Those of devices that exchange by themselves are constants, and where an
// engine is to be deterministic all figures are. Throws Failure (run, "rank").
ChoiceOptions figures_of(const Engine& engine, const Mesh& mesh, Transport& transport,
                         Linking linking);

// The slowest of all ranks' messages to a neighbour along each axis. All ranks together.
std::vector<Link> measured_links(const Mesh& mesh, Transport& transport);

// Kept links; `directory` may be null.
std::optional<std::vector<Link>> load_links(const PrivateDirectory* directory,
                                            const std::string& identity, size_t axes);
bool store_links(const PrivateDirectory* directory, const std::string& identity,
                 const std::vector<Link>& links);

}  // namespace tile
