// Drawings of results as SVG text. Colours are CSS variables of the page: --ours, --peer0 …
// --peer7, --ink, --rule.
#pragma once

#include <string>

#include "bench/report/results.h"

namespace tile::bench {

// Text safe inside HTML and SVG.
std::string escaped(const std::string& text);
// The CSS variable of a peer, by its place among the peers' names.
std::string peer_colour(size_t place);
// For each class the geometric mean of the ratios to the best peer, the worst ratio, and the aim,
// on a logarithmic axis; empty without peers.
std::string class_ratios(const std::vector<Suite>& suites);
// Operations for each byte against operations in a second, both logarithmic, under the ceilings:
// ours, and the best peer as a ring.
std::string roofline(const Results& results);
// For each case the share of the ceiling that we and each peer reach.
std::string bars(const std::vector<const Row*>& rows, const std::vector<std::string>& peers);
// The best time after each candidate over the final one; empty if nothing was tuned.
std::string tuning_curves(const Results& results);
// Names of the peers that have a time somewhere, in order.
std::vector<std::string> peer_names(const Results& results);

}  // namespace tile::bench
