// Files of JSON that are replaced as a whole, so that a run that is cut short leaves what it had.
#pragma once

#include <string>

namespace tile::bench {

// "-" is standard output. Throws Failure (code "file").
void replace_file(const std::string& path, const std::string& text);

}  // namespace tile::bench
