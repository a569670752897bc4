#include "core/support/bytes_text.h"

#include <array>
#include <sstream>

namespace tile {

std::string bytes_text(size_t bytes) {
  constexpr size_t kKibi = 1024;
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 10 * kKibi) return std::to_string(bytes) + " bytes";
  auto amount = static_cast<double>(bytes) / kKibi;
  size_t unit = 0;
  // What rounds to a thousand is one of the next unit.
  for (; amount >= 999.5 && unit + 1 < kUnits.size(); ++unit) amount /= kKibi;
  std::ostringstream text;
  text.precision(3);
  text << amount << " " << kUnits[unit];
  return text.str();
}

}  // namespace tile
