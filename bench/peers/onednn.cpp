#include "bench/peers/onednn.h"

#include <omp.h>

#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace tile::bench {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;
constexpr auto kFloat = memory::data_type::f32;
constexpr auto kInference = dnnl::prop_kind::forward_inference;

// Descriptors were two steps before version 3.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const dnnl::engine& engine, Arguments&&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, std::forward<Arguments>(arguments)...);
#else
  return {typename Primitive::desc(std::forward<Arguments>(arguments)...), engine};
#endif
}

memory::desc rows(const Dims& dims) { return {dims, kFloat, dims.size() == 2 ? Tag::ab : Tag::a}; }
memory::desc nhwc(const Shape& s) { return {{s[0], s[3], s[1], s[2]}, kFloat, Tag::nhwc}; }
memory::desc hwio(const Shape& s) { return {{s[3], s[2], s[0], s[1]}, kFloat, Tag::hwio}; }
// The same extents in the layout that the library likes best.
memory::desc any(const Shape& s) { return {{s[3], s[2], s[0], s[1]}, kFloat, Tag::any}; }

// Where a window's taps start, and how far they reach past the end, so that the result has the
// workload's size.
struct Padding {
  Dims before, after;
};
Padding padding(const Shape& in, const Shape& out, int64_t window, int64_t stride) {
  int64_t before = (window - 1) / 2;
  Padding p{{before, before}, {}};
  for (size_t d : {1, 2}) p.after.push_back((out[d] - 1) * stride + window - in[d] - before);
  return p;
}

class OneDnn : public Peer {
 public:
  explicit OneDnn(int threads) : threads_(threads) { omp_set_num_threads(threads); }

  std::string name() const override { return "onednn"; }
  std::string description() const override {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch) + ", " + std::to_string(threads_) + " threads";
  }

  Calls prepare(const Case& c, std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    Tensor& output = outputs.front();
    using Make = Calls (OneDnn::*)(const Case&, std::span<const Tensor>, Tensor&);
    static const std::map<std::string, Make> kinds = {
        {"matrix_product", &OneDnn::matrix_product},
        {"convolution", &OneDnn::convolution},
        {"convolution_gradient", &OneDnn::convolution_gradient},
        {"max_pool", &OneDnn::max_pool},
        {"softmax", &OneDnn::softmax},
        {"layer_norm", &OneDnn::layer_norm},
        {"sum", &OneDnn::sum},
        {"transpose", &OneDnn::transpose},
    };
    auto it = kinds.find(c.workload->kind);
    if (it == kinds.end() || output.type() != DType::f32) return {};
    return (this->*it->second)(c, inputs, output);
  }

 private:
  using Arguments = std::unordered_map<int, memory>;

  memory over(const memory::desc& desc, const Tensor& t) { return {desc, engine_, t.data()}; }
  Calls call(const dnnl::primitive& primitive, Arguments arguments) {
    return timed([this, primitive, arguments = std::move(arguments)] {
      primitive.execute(stream_, arguments);
      stream_.wait();
    });
  }
  // Constant weights, once, in the layout asked for.
  memory prepared(memory from, const memory::desc& desc) {
    memory to(desc, engine_);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return to;
  }

  Calls matrix_product(const Case&, std::span<const Tensor> in, Tensor& out) {
    memory::desc a = rows(in[0].shape()), b = rows(in[1].shape()), c = rows(out.shape());
    auto pd = describe<dnnl::matmul>(engine_, a, b, c);
    return call(dnnl::matmul(pd), {{DNNL_ARG_SRC, over(a, in[0])},
                                   {DNNL_ARG_WEIGHTS, over(b, in[1])},
                                   {DNNL_ARG_DST, over(c, out)}});
  }

  Calls convolution(const Case& c, std::span<const Tensor> in, Tensor& out) {
    int stride = c.workload->attribute("stride");
    Padding p = padding(in[0].shape(), out.shape(), in[1].shape()[0], stride);
    memory::desc from = nhwc(in[0].shape()), to = nhwc(out.shape());
    auto pd = describe<dnnl::convolution_forward>(
        engine_, kInference, dnnl::algorithm::convolution_direct, from, any(in[1].shape()), to,
        Dims{stride, stride}, p.before, p.after);
    memory weights = prepared(over(hwio(in[1].shape()), in[1]), pd.weights_desc());
    return call(dnnl::convolution_forward(pd), {{DNNL_ARG_SRC, over(from, in[0])},
                                                {DNNL_ARG_WEIGHTS, weights},
                                                {DNNL_ARG_DST, over(to, out)}});
  }

  // The gradient's inputs are the picture, the filter and the seed; stride 3, dilation 2, no
  // padding.
  Calls convolution_gradient(const Case& c, std::span<const Tensor> in, Tensor& out) {
    int stride = c.workload->attribute("stride"), dilation = c.workload->attribute("dilation");
    const Tensor &filter = in[in.size() - 2], &seed = in.back();
    memory::desc from = nhwc(seed.shape()), to = nhwc(out.shape()), weights = any(filter.shape());
    Dims strides{stride, stride}, gaps{dilation - 1, dilation - 1}, none{0, 0};
    auto hint = describe<dnnl::convolution_forward>(engine_, dnnl::prop_kind::forward_training,
                                                    dnnl::algorithm::convolution_direct, to,
                                                    weights, from, strides, gaps, none, none);
#if DNNL_VERSION_MAJOR >= 3
    dnnl::convolution_backward_data::primitive_desc pd(engine_, dnnl::algorithm::convolution_direct,
                                                       to, weights, from, strides, gaps, none, none,
                                                       hint);
#else
    dnnl::convolution_backward_data::primitive_desc pd(
        dnnl::convolution_backward_data::desc(dnnl::algorithm::convolution_direct, to, weights,
                                              from, strides, gaps, none, none),
        engine_, hint);
#endif
    memory prepacked = prepared(over(hwio(filter.shape()), filter), pd.weights_desc());
    return call(dnnl::convolution_backward_data(pd), {{DNNL_ARG_DIFF_DST, over(from, seed)},
                                                      {DNNL_ARG_WEIGHTS, prepacked},
                                                      {DNNL_ARG_DIFF_SRC, over(to, out)}});
  }

  Calls max_pool(const Case& c, std::span<const Tensor> in, Tensor& out) {
    int stride = c.workload->attribute("stride"), window = c.workload->attribute("window");
    Padding p = padding(in[0].shape(), out.shape(), window, stride);
    memory::desc from = nhwc(in[0].shape()), to = nhwc(out.shape());
#if DNNL_VERSION_MAJOR >= 3
    using Pooling = dnnl::pooling_forward;
#else
    using Pooling = dnnl::pooling_v2_forward;
#endif
    auto pd = describe<Pooling>(engine_, kInference, dnnl::algorithm::pooling_max, from, to,
                                Dims{stride, stride}, Dims{window, window}, Dims{0, 0}, p.before,
                                p.after);
    return call(Pooling(pd), {{DNNL_ARG_SRC, over(from, in[0])}, {DNNL_ARG_DST, over(to, out)}});
  }

  Calls softmax(const Case&, std::span<const Tensor> in, Tensor& out) {
    memory::desc desc = rows(out.shape());
#if DNNL_VERSION_MAJOR >= 3
    auto pd = describe<dnnl::softmax_forward>(engine_, kInference,
                                              dnnl::algorithm::softmax_accurate, desc, desc, 1);
#else
    auto pd = describe<dnnl::softmax_forward>(engine_, kInference, desc, 1);
#endif
    return call(dnnl::softmax_forward(pd),
                {{DNNL_ARG_SRC, over(desc, in[0])}, {DNNL_ARG_DST, over(desc, out)}});
  }

  Calls layer_norm(const Case&, std::span<const Tensor> in, Tensor& out) {
    memory::desc desc = rows(out.shape()), parameter = rows(in[1].shape());
    auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
    constexpr float kEpsilon = 0.00001F;
#if DNNL_VERSION_MAJOR >= 3
    auto pd = describe<dnnl::layer_normalization_forward>(engine_, kInference, desc, desc, kEpsilon,
                                                          flags);
#else
    auto pd =
        describe<dnnl::layer_normalization_forward>(engine_, kInference, desc, kEpsilon, flags);
#endif
    return call(dnnl::layer_normalization_forward(pd), {{DNNL_ARG_SRC, over(desc, in[0])},
                                                        {DNNL_ARG_SCALE, over(parameter, in[1])},
                                                        {DNNL_ARG_SHIFT, over(parameter, in[2])},
                                                        {DNNL_ARG_DST, over(desc, out)}});
  }

  Calls sum(const Case& c, std::span<const Tensor> in, Tensor& out) {
    Dims kept = in[0].shape();
    kept[static_cast<size_t>(c.workload->attribute("axis"))] = 1;
    memory::desc from = rows(in[0].shape()), to = rows(kept);
    auto pd =
        describe<dnnl::reduction>(engine_, dnnl::algorithm::reduction_sum, from, to, 0.0F, 0.0F);
    return call(dnnl::reduction(pd),
                {{DNNL_ARG_SRC, over(from, in[0])}, {DNNL_ARG_DST, over(to, out)}});
  }

  Calls transpose(const Case&, std::span<const Tensor> in, Tensor& out) {
    memory from = over(rows(in[0].shape()), in[0]);
    memory to = over(memory::desc(in[0].shape(), kFloat, Tag::ba), out);
    return call(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  int threads_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

}  // namespace

std::unique_ptr<Peer> make_onednn(int threads) { return std::make_unique<OneDnn>(threads); }

}  // namespace tile::bench
