#include "bench/peers/openblas.h"

#include <cblas.h>
#include <unistd.h>

#include <cstdlib>

namespace tile::bench {
namespace {

class OpenBlas : public Peer {
 public:
  explicit OpenBlas(int threads) : threads_(threads) { openblas_set_num_threads(threads); }

  std::string name() const override { return "openblas"; }
  std::string description() const override {
    return std::string(openblas_get_config()) + ", kernels " + openblas_get_corename() + ", " +
           std::to_string(threads_) + " threads";
  }

  Calls prepare(const Case& c, std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    Tensor& output = outputs.front();
    if (c.workload->kind != "matrix_product" || output.type() != DType::f32) return {};
    const Tensor &a = inputs[0], &b = inputs[1];
    auto m = static_cast<blasint>(a.shape()[0]), k = static_cast<blasint>(a.shape()[1]),
         n = static_cast<blasint>(b.shape()[1]);
    return timed([=, &a, &b, &output] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0F, a.elements<float>(), k,
                  b.elements<float>(), n, 0.0F, output.elements<float>(), n);
    });
  }

 private:
  int threads_;
};

bool uses_avx512(const std::string& core) {
  return core == "SkylakeX" || core == "Cooperlake" || core == "SapphireRapids";
}

}  // namespace

std::unique_ptr<Peer> make_openblas(int threads) { return std::make_unique<OpenBlas>(threads); }

// OpenBLAS takes CPUs that it does not know for older ones, and an environment may hold it below
// what the CPU has; as a peer it runs at its best. It reads the environment once, when it is
// loaded: hence the new start.
void settle_openblas([[maybe_unused]] char** argv) {
#if defined(__x86_64__)
  constexpr const char* kCore = "OPENBLAS_CORETYPE";
  constexpr const char* kWide = "SkylakeX";
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  const char* set = std::getenv(kCore);
  if (!wide || uses_avx512(openblas_get_corename()) ||
      (set != nullptr && set == std::string(kWide))) {
    return;
  }
  setenv(kCore, kWide, 1);
  unsetenv("OPENBLAS_L2_SIZE");
  execv("/proc/self/exe", argv);  // returns only on failure: then its own choice has to do
#endif
}

}  // namespace tile::bench
