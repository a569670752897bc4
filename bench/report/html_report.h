// A file of results as one self-contained page: the classes beside their peers, a roofline with the
// ceilings of the same run, bars of every case, and how tuning went.
#pragma once

#include <string>

#include "bench/report/results.h"

namespace tile::bench {

std::string to_html(const Results& results);
// Throws Failure (code "file").
void write_html(const Results& results, const std::string& path);

}  // namespace tile::bench
