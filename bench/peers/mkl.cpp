#include "bench/peers/mkl.h"

#include <oneapi/tbb/task_arena.h>

#include <bit>

#include "bench/peers/library.h"

namespace tile::bench {
namespace {

// Declarations of MKL's C interface, as far as it is used here (32-bit integers).
constexpr int kRowMajor = 101, kNoTrans = 111;
constexpr int kInterfaceLp64 = 0, kThreadingTbb = 4;
template <class T>
using Gemm = void(int, int, int, int, int, int, float, const T*, int, const T*, int, float, float*,
                  int);

uint16_t rounded_to_bf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

class Mkl : public Peer {
 public:
  Mkl(const Library& library, int threads)
      : arena_(threads),
        f32_(library.function<Gemm<float>>("cblas_sgemm")),
        bf16_(library.function<Gemm<uint16_t>>("cblas_gemm_bf16bf16f32")) {
    library.function<int(int)>("MKL_Set_Interface_Layer")(kInterfaceLp64);
    library.function<int(int)>("MKL_Set_Threading_Layer")(kThreadingTbb);
    char text[200] = "";
    library.function<void(char*, int)>("MKL_Get_Version_String")(text, sizeof text);
    version_ = text;
    version_.erase(version_.find_last_not_of(" \n") + 1);
  }

  std::string name() const override { return "mkl"; }
  std::string description() const override {
    return version_ + ", " + std::to_string(arena_.max_concurrency()) + " threads of oneTBB";
  }

  Calls prepare(const Case& c, std::span<const Tensor> in, std::span<Tensor> outputs) override {
    Tensor& out = outputs.front();
    if (c.workload->kind != "matrix_product" || in[0].type() != in[1].type()) return {};
    if (in[0].type() == DType::f32 && out.type() == DType::f32) {
      return product(f32_, in, out.elements<float>());
    }
    if (in[0].type() != DType::bf16) return {};
    if (out.type() == DType::f32) return product(bf16_, in, out.elements<float>());
    return out.type() == DType::bf16 ? narrowed(in, out) : Calls();
  }

 private:
  template <class T>
  Calls product(Gemm<T>* gemm, std::span<const Tensor> in, float* out) {
    auto m = static_cast<int>(in[0].shape()[0]), k = static_cast<int>(in[0].shape()[1]),
         n = static_cast<int>(in[1].shape()[1]);
    const T *a = in[0].elements<T>(), *b = in[1].elements<T>();
    return timed([=, this] {
      arena_.execute(
          [=] { gemm(kRowMajor, kNoTrans, kNoTrans, m, n, k, 1, a, k, b, n, 0, out, n); });
    });
  }

  // MKL's products of bf16 have f32 results; rounding them, for the comparison, is not timed.
  Calls narrowed(std::span<const Tensor> in, Tensor& out) {
    auto sums = std::make_shared<Tensor>(InputType{DType::f32, out.shape()});
    Calls calls = product(bf16_, in, sums->elements<float>());
    return [calls = std::move(calls), sums, &out](int64_t count) {
      double ns = calls(count);
      size_t elements = out.bytes() / sizeof(uint16_t);
      for (size_t i = 0; i < elements; ++i) {
        out.elements<uint16_t>()[i] = rounded_to_bf16(sums->elements<float>()[i]);
      }
      return ns;
    };
  }

  tbb::task_arena arena_;
  Gemm<float>* f32_;
  Gemm<uint16_t>* bf16_;
  std::string version_;
};

}  // namespace

std::unique_ptr<Peer> make_mkl(int threads) {
  std::shared_ptr<Library> library = Library::open({"libmkl_rt.so.3", "libmkl_rt.so.2"});
  return library ? std::make_unique<Mkl>(*library, threads) : nullptr;
}

}  // namespace tile::bench
