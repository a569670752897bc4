#include "runtime/transport/transport.h"

#include <cstdio>

#include "core/support/diagnostic.h"
#include "runtime/transport/courier.h"

namespace tile {
namespace {

std::string name_of(size_t rank, const Transport& end) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(end.ranks());
}

}  // namespace

Transport::Transport() = default;
Transport::~Transport() = default;

Courier& Transport::courier() {
  if (!courier_) courier_ = std::make_unique<Courier>(*this);
  return *courier_;
}

void fail_silent(size_t rank, const Transport& end, double seconds, const std::string& what) {
  char time[32];
  std::snprintf(time, sizeof time, "%.3g", seconds);
  fail(Stage::run, "rank", {},
       name_of(rank, end) + " was silent for " + time + " s in the " + what);
}

void fail_with(size_t rank, const Transport& end, const std::string& what, const std::string& why) {
  fail(Stage::run, "rank", {},
       name_of(rank, end) + " failed before the " + what + (why.empty() ? "" : ": " + why));
}

}  // namespace tile
