// Drawings of results as SVG text. Colours are CSS variables of the page: --ours, --peer0 …, --ink,
// --rule.
#pragma once

#include <string>

#include "bench/results.h"

namespace tile::bench {

// Text safe inside HTML and SVG.
std::string escaped(const std::string& text);
// Operations for each byte against operations in a second, both logarithmic, under the ceilings.
std::string roofline(const Results& results);
// For each case the share of the ceiling that we and each peer reach.
std::string bars(const std::vector<const Row*>& rows, const std::vector<std::string>& peers);
// The best time after each candidate over the final one; empty if nothing was tuned.
std::string tuning_curves(const Results& results);
// Names of the peers that have a time somewhere, in order.
std::vector<std::string> peer_names(const Results& results);

}  // namespace tile::bench
