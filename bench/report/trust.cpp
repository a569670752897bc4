#include "bench/report/trust.h"

#include <array>
#include <cstdio>
#include <string_view>

namespace tile::bench {
namespace {

// What a peer that is set up correctly reaches at least, as part of the ceiling, of a kind of
// workload whose data is used often enough for arithmetic to be the limit.
struct Known {
  std::string_view peer, kind;
  double share;
  std::string_view source;
};
constexpr double kOperationsPerByte = 60;

// Two loops that are both at the limit differ by less.
constexpr double kBeyondCeiling = 1.1;

constexpr std::string_view kSkylakeX =
    "measured with SkylakeX kernels; the kernels that it picks by default are 5 times slower";
constexpr std::string_view kLevel =
    "the best peer of such products is known to be near the ceiling";
constexpr std::array kKnown{
    Known{"openblas", "matrix_product", 0.6, kSkylakeX},
    Known{"onednn", "matrix_product", 0.6, kLevel},
    Known{"onednn", "convolution", 0.6, kLevel},
    Known{"onednn", "convolution_data_gradient", 0.5, kLevel},
    Known{"mkldnn", "convolution", 0.6, kLevel},
};

std::string words(const Known& known, double share) {
  char text[200];
  std::snprintf(text, sizeof text, "%.*s reaches %.0f %% of the ceiling, known to reach %.0f %%",
                static_cast<int>(known.peer.size()), known.peer.data(), 100 * share,
                100 * known.share);
  return std::string(text) + " (" + std::string(known.source) + ")";
}

}  // namespace

std::string distrust(const Workload& workload, DType type, const Result& result) {
  std::string reasons;
  auto add = [&](const std::string& reason) { reasons += (reasons.empty() ? "" : "; ") + reason; };
  if (result.share_of_ceiling() > kBeyondCeiling) {
    add("faster than what was measured as its ceiling: other work held that up, or nearer caches "
        "have the data");
  }
  bool arithmetic = result.work.operations >= kOperationsPerByte * result.work.bytes;
  if (type != DType::f32 || workload.measure != Measure::gflops || !arithmetic) return reasons;
  for (const PeerResult& peer : result.peers) {
    double share = result.share_of_ceiling(peer.times);
    for (const Known& known : kKnown) {
      if (known.peer != peer.name || known.kind != workload.kind || share >= known.share) continue;
      add(words(known, share));
    }
  }
  return reasons;
}

}  // namespace tile::bench
