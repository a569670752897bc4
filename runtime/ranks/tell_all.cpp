#include "runtime/ranks/tell_all.h"

#include <algorithm>

namespace tile {

std::vector<std::byte> bytes_of_all(Transport& transport, std::span<const std::byte> own,
                                    const std::string& what) {
  size_t ranks = transport.ranks(), self = transport.rank(), bytes = own.size();
  std::vector<std::byte> all(ranks * bytes);
  std::copy(own.begin(), own.end(), all.begin() + static_cast<ptrdiff_t>(self * bytes));
  std::vector<SentPart> sent;
  std::vector<ReceivedPart> received;
  for (size_t r = 0; r < ranks; ++r) {
    if (r == self) continue;
    sent.push_back({r, own.data(), bytes});
    received.push_back({r, all.data() + r * bytes, bytes});
  }
  transport.exchange(sent, received, what);
  return all;
}

}  // namespace tile
