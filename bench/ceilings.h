// What this machine can do at best, measured in the same run as the benchmarks.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace tile::bench {

// f32 multiply-adds on registers alone: 10^9 operations (2 for each multiply-add) in a second, by
// `threads` threads at once with the widest vectors of this CPU.
double fma_gflops(int threads);
std::string fma_probe_name();  // "avx512", "avx2", "generic"
// memcpy within `bytes` of memory (source and destination together, divided among the threads):
// 10^9 bytes read and written in a second.
double copy_gbps(int threads, size_t bytes);

// Probes on first use and remembers.
class Ceilings {
 public:
  double gflops(int threads);
  // The copy rate where the data of a benchmark of `bytes` lies: probed at the power of two above.
  double gbps(int threads, double bytes);

 private:
  std::map<int, double> gflops_;
  std::map<std::pair<int, size_t>, double> gbps_;
};

}  // namespace tile::bench
