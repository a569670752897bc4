#include "runtime/ranks/exchange_names.h"

namespace tile {

std::vector<std::string> exchange_names(const PartitionedProgram& partitioned,
                                        const Source& source) {
  std::vector<std::string> names;
  for (const ExchangeSummary& e : partitioned.exchanges) {
    std::string line = std::to_string(position_of(source, e.span.begin).line);
    names.push_back(std::string(to_string(e.cost.kind)) + " of " + e.source + ", " + source.name +
                    ":" + line);
  }
  return names;
}

}  // namespace tile
