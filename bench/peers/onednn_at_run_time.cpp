#include "bench/peers/onednn_at_run_time.h"

#include <functional>
#include <map>

#include "bench/peers/onednn_interface.h"

namespace tile::bench {
namespace {

using namespace onednn;

void require(int status, const char* what) {
  if (status == kSuccess) return;
  fail(Stage::run, "peer", {},
       std::string("oneDNN: ") + what + " fails with status " + std::to_string(status));
}

// A dense tensor seen with its axes in another order and extents of one added: what oneDNN calls
// dimensions and strides.
struct View {
  std::vector<int64_t> dims, strides;
  int type = kF32;
};

int type_of(const Tensor& t) {
  if (t.type() == DType::f32) return kF32;
  if (t.type() == DType::bf16) return kBf16;
  fail(Stage::run, "peer", {}, "oneDNN: elements of this type are not measured");
}

View view(const Tensor& t, const Shape& shape, const std::vector<size_t>& order) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
  View v{{}, {}, type_of(t)};
  for (size_t axis : order) {
    v.dims.push_back(shape[axis]);
    v.strides.push_back(strides[axis]);
  }
  return v;
}
View plain(const Tensor& t, const Shape& shape) {
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  return view(t, shape, order);
}
View plain(const Tensor& t) { return plain(t, t.shape()); }

// Channels last as oneDNN counts: batch, channels, then space. Groups of channels lie side by side.
View picture(const Tensor& t, bool grouped) {
  Shape s = t.shape();
  if (grouped) {
    s[s.size() - 2] *= s.back();
    s.pop_back();
  }
  std::vector<size_t> order{0, s.size() - 1};
  for (size_t i = 1; i + 1 < s.size(); ++i) order.push_back(i);
  return view(t, s, order);
}
// Taps, then (group,) input and output channels.
View filter(const Tensor& t, bool grouped, bool depthwise) {
  Shape s = t.shape();
  if (depthwise) s.insert(s.end(), 2, 1);
  size_t taps = s.size() - (grouped || depthwise ? 3 : 2);
  std::vector<size_t> order;
  if (grouped || depthwise) order.push_back(taps);
  order.push_back(s.size() - 1);
  order.push_back(s.size() - 2);
  for (size_t i = 0; i < taps; ++i) order.push_back(i);
  return view(t, s, order);
}

// Strides, gaps and padding of a window over every spatial axis.
struct Window {
  Dims strides{}, gaps{}, before{}, after{}, taps{};
};
// So that windows over `in` give `out`; centred, or from the first element on.
Window window(const View& in, const View& out, const std::vector<int64_t>& taps, int64_t stride,
              int64_t dilation, bool centred) {
  Window w;
  for (size_t i = 0; i < taps.size(); ++i) {
    int64_t reach = (taps[i] - 1) * dilation;
    w.taps[i] = taps[i];
    w.strides[i] = stride;
    w.gaps[i] = dilation - 1;
    w.before[i] = centred ? reach / 2 : 0;
    w.after[i] = (out.dims[i + 2] - 1) * stride + reach + 1 - in.dims[i + 2] - w.before[i];
  }
  return w;
}

int64_t attribute(const Case& c, const std::string& name, int64_t otherwise) {
  auto it = c.workload->attributes.find(name);
  return it == c.workload->attributes.end() ? otherwise : it->second;
}

class OneDnn : public Peer {
 public:
  OneDnn(std::shared_ptr<Library> library, int threads)
      : api_(std::move(library)), threads_(threads) {
    if (void* set = api_.library->find("omp_set_num_threads")) {
      reinterpret_cast<void (*)(int)>(set)(threads);
    }
    require(api_.engine_create(&engine_, kCpu, 0), "an engine");
    require(api_.stream_create(&stream_, engine_, kInOrder), "a stream");
  }

  std::string name() const override { return "onednn"; }
  std::string description() const override {
    const Version* v = api_.version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch) + ", " + std::to_string(threads_) + " threads";
  }

  Calls prepare(const Case& c, std::span<const Tensor> in, std::span<Tensor> outputs) override {
    Tensor& out = outputs.front();
    using Make = Calls (OneDnn::*)(const Case&, std::span<const Tensor>, Tensor&);
    static const std::map<std::string, Make> kinds = {
        {"matrix_product", &OneDnn::matrix_product},
        {"convolution", &OneDnn::convolution},
        {"convolution_3d", &OneDnn::convolution},
        {"convolution_bias_relu", &OneDnn::convolution},
        {"grouped_convolution", &OneDnn::convolution},
        {"depthwise_convolution", &OneDnn::convolution},
        {"convolution_gradient", &OneDnn::data_gradient},
        {"convolution_data_gradient", &OneDnn::data_gradient},
        {"convolution_filter_gradient", &OneDnn::filter_gradient},
        {"max_pool", &OneDnn::max_pool},
        {"average_pool", &OneDnn::reduction},
        {"softmax", &OneDnn::softmax},
        {"layer_norm", &OneDnn::layer_norm},
        {"sum", &OneDnn::reduction},
        {"sum_all", &OneDnn::reduction},
        {"sum_middle", &OneDnn::reduction},
        {"max_rows", &OneDnn::reduction},
        {"transpose", &OneDnn::transpose},
    };
    auto it = kinds.find(c.workload->kind);
    bool floats = out.type() == DType::f32 || out.type() == DType::bf16;
    if (it == kinds.end() || !floats) return {};
    return (this->*it->second)(c, in, out);
  }

 private:
  using Description = std::shared_ptr<DescriptorObject>;
  using Plan = std::shared_ptr<PrimitiveDescriptorObject>;
  struct Operand {
    int which;
    std::shared_ptr<MemoryObject> memory;
  };

  Description describe(const View& v) const {
    Descriptor made = nullptr;
    require(api_.memory_desc_create_with_strides(&made, static_cast<int>(v.dims.size()),
                                                 v.dims.data(), v.type, v.strides.data()),
            "a descriptor");
    return {made, api_.memory_desc_destroy};
  }
  // The same extents in the layout that the library likes best.
  Description any(const View& v) const {
    Descriptor made = nullptr;
    require(api_.memory_desc_create_with_tag(&made, static_cast<int>(v.dims.size()), v.dims.data(),
                                             v.type, kAnyLayout),
            "a descriptor");
    return {made, api_.memory_desc_destroy};
  }
  Plan plan(const std::function<int(PrimitiveDescriptor*)>& create) const {
    PrimitiveDescriptor made = nullptr;
    require(create(&made), "a primitive");
    return {made, api_.primitive_desc_destroy};
  }
  std::shared_ptr<MemoryObject> over(const DescriptorObject* description, void* data) const {
    Memory made = nullptr;
    require(api_.memory_create(&made, description, engine_, data), "a memory object");
    return {made, api_.memory_destroy};
  }
  Operand operand(int which, const Description& description, const Tensor& t) const {
    return {which, over(description.get(), t.data())};
  }

  std::function<void()> call(const Plan& plan, std::vector<Operand> operands) const {
    Primitive made = nullptr;
    require(api_.primitive_create(&made, plan.get()), "a primitive");
    std::shared_ptr<PrimitiveObject> primitive(made, api_.primitive_destroy);
    std::vector<Argument> arguments;
    for (const Operand& o : operands) arguments.push_back({o.which, o.memory.get()});
    return [this, primitive, arguments, kept = std::move(operands)] {
      auto count = static_cast<int>(arguments.size());
      require(api_.primitive_execute(primitive.get(), stream_, count, arguments.data()), "a call");
      require(api_.stream_wait(stream_), "a call");
    };
  }
  std::function<void()> reorder(const DescriptorObject* from, std::shared_ptr<MemoryObject> source,
                                const DescriptorObject* to,
                                std::shared_ptr<MemoryObject> target) const {
    Plan copy = plan([&](PrimitiveDescriptor* made) {
      return api_.reorder_primitive_desc_create(made, from, engine_, to, engine_, nullptr);
    });
    return call(copy, {{kSource, std::move(source)}, {kDestination, std::move(target)}});
  }
  // Memory that belongs to what holds the result.
  std::shared_ptr<MemoryObject> fresh(const DescriptorObject* description) const {
    InputType bytes{DType::u8, {static_cast<int64_t>(api_.memory_desc_get_size(description))}};
    auto tensor = std::make_shared<Tensor>(bytes);
    std::shared_ptr<MemoryObject> memory = over(description, tensor->data());
    return {memory.get(), [tensor, memory](MemoryObject*) {}};
  }
  // Constant weights in the layout that a plan asks for, once.
  Operand prepacked_weights(const View& v, const Tensor& weights, const Plan& for_plan) const {
    const DescriptorObject* wanted = api_.query_md(for_plan.get(), kQueryWeights, 0);
    Description given = describe(v);
    std::shared_ptr<MemoryObject> to = fresh(wanted);
    reorder(given.get(), over(given.get(), weights.data()), wanted, to)();
    return {kWeights, to};
  }

  Calls matrix_product(const Case&, std::span<const Tensor> in, Tensor& out) {
    Description a = describe(plain(in[0])), b = describe(plain(in[1])), c = describe(plain(out));
    Plan product = plan([&](PrimitiveDescriptor* made) {
      return api_.matmul_primitive_desc_create(made, engine_, a.get(), b.get(), nullptr, c.get(),
                                               nullptr);
    });
    return timed(call(product, {operand(kSource, a, in[0]), operand(kWeights, b, in[1]),
                                operand(kDestination, c, out)}));
  }

  // Picture, filter, perhaps a bias, after which comes max(0, x).
  Calls convolution(const Case& c, std::span<const Tensor> in, Tensor& out) {
    bool grouped = c.workload->kind == "grouped_convolution";
    View from = picture(in[0], grouped), to = picture(out, grouped);
    View weights = filter(in[1], grouped, c.workload->kind == "depthwise_convolution");
    size_t space = from.dims.size() - 2;
    Window w =
        window(from, to, {weights.dims.end() - static_cast<int64_t>(space), weights.dims.end()},
               attribute(c, "stride", 1), attribute(c, "dilation", 1), true);
    Description source = describe(from), target = describe(to), liked = any(weights);
    bool biased = in.size() > 2;
    Description bias = biased ? describe(plain(in[2])) : nullptr;
    std::shared_ptr<AttributesObject> attributes = biased ? relu_after() : nullptr;
    Plan forward = plan([&](PrimitiveDescriptor* made) {
      return api_.convolution_forward_primitive_desc_create(
          made, engine_, kInference, kDirect, source.get(), liked.get(), bias.get(), target.get(),
          w.strides, w.gaps, w.before, w.after, attributes.get());
    });
    std::vector<Operand> operands{operand(kSource, source, in[0]),
                                  prepacked_weights(weights, in[1], forward),
                                  operand(kDestination, target, out)};
    if (biased) operands.push_back(operand(kBias, bias, in[2]));
    return timed(call(forward, std::move(operands)));
  }

  std::shared_ptr<AttributesObject> relu_after() const {
    PostOperations made = nullptr;
    require(api_.post_ops_create(&made), "a post-operation");
    std::shared_ptr<PostOperationsObject> after(made, api_.post_ops_destroy);
    require(api_.post_ops_append_eltwise(made, kRelu, 0, 0), "a post-operation");
    Attributes attributes = nullptr;
    require(api_.primitive_attr_create(&attributes), "attributes");
    std::shared_ptr<AttributesObject> owned(attributes, api_.primitive_attr_destroy);
    require(api_.primitive_attr_set_post_ops(attributes, made), "attributes");
    return owned;
  }

  // What both gradients of a convolution share.
  struct Backward {
    View picture, filter, result;
    Window window{};
    Description source{}, weights{}, target{};
    Plan hint{};
  };
  Backward backward(const Case& c, const Tensor& pictures, const Tensor& weights,
                    const Tensor& seed) {
    Backward b{picture(pictures, false), filter(weights, false, false), picture(seed, false)};
    bool centred = c.workload->kind != "convolution_gradient";
    b.window = window(b.picture, b.result, {b.filter.dims.begin() + 2, b.filter.dims.end()},
                      attribute(c, "stride", 1), attribute(c, "dilation", 1), centred);
    b.source = describe(b.picture);
    b.weights = any(b.filter);
    b.target = describe(b.result);
    b.hint = plan([&](PrimitiveDescriptor* made) {
      return api_.convolution_forward_primitive_desc_create(
          made, engine_, kTraining, kDirect, b.source.get(), b.weights.get(), nullptr,
          b.target.get(), b.window.strides, b.window.gaps, b.window.before, b.window.after,
          nullptr);
    });
    return b;
  }

  // The gradients' inputs are the picture, the filter and the seed.
  Calls data_gradient(const Case& c, std::span<const Tensor> in, Tensor& out) {
    const Tensor &weights = in[in.size() - 2], &seed = in.back();
    Backward b = backward(c, out, weights, seed);
    Plan gradient = plan([&](PrimitiveDescriptor* made) {
      return api_.convolution_backward_data_primitive_desc_create(
          made, engine_, kDirect, b.source.get(), b.weights.get(), b.target.get(), b.window.strides,
          b.window.gaps, b.window.before, b.window.after, b.hint.get(), nullptr);
    });
    return timed(call(gradient, {operand(kDiffDestination, b.target, seed),
                                 prepacked_weights(b.filter, weights, gradient),
                                 operand(kDiffSource, b.source, out)}));
  }

  // The result comes in the library's own layout; bringing it into ours is part of the call.
  Calls filter_gradient(const Case& c, std::span<const Tensor> in, Tensor& out) {
    Backward b = backward(c, in.front(), out, in.back());
    Plan gradient = plan([&](PrimitiveDescriptor* made) {
      return api_.convolution_backward_weights_primitive_desc_create(
          made, engine_, kDirect, b.source.get(), b.weights.get(), nullptr, b.target.get(),
          b.window.strides, b.window.gaps, b.window.before, b.window.after, b.hint.get(), nullptr);
    });
    const DescriptorObject* liked = api_.query_md(gradient.get(), kQueryDiffWeights, 0);
    Description ours = describe(b.filter);
    std::vector<Operand> operands{operand(kSource, b.source, in.front()),
                                  operand(kDiffDestination, b.target, in.back())};
    std::shared_ptr<MemoryObject> result = over(ours.get(), out.data());
    if (api_.memory_desc_equal(liked, ours.get()) != 0) {
      operands.push_back({kDiffWeights, result});
      return timed(call(gradient, std::move(operands)));
    }
    std::shared_ptr<MemoryObject> theirs = fresh(liked);
    operands.push_back({kDiffWeights, theirs});
    std::function<void()> compute = call(gradient, std::move(operands)),
                          bring = reorder(liked, theirs, ours.get(), result);
    return timed([compute, bring, gradient] {
      compute();
      bring();
    });
  }

  Calls max_pool(const Case& c, std::span<const Tensor> in, Tensor& out) {
    View from = picture(in[0], false), to = picture(out, false);
    int64_t taps = c.workload->attribute("window");
    Window w = window(from, to, std::vector<int64_t>(from.dims.size() - 2, taps),
                      c.workload->attribute("stride"), 1, true);
    Description source = describe(from), target = describe(to);
    Plan pool = plan([&](PrimitiveDescriptor* made) {
      return api_.pooling_forward_primitive_desc_create(made, engine_, kInference, kMaxPooling,
                                                        source.get(), target.get(), w.strides,
                                                        w.taps, w.gaps, w.before, w.after, nullptr);
    });
    return timed(call(pool, {operand(kSource, source, in[0]), operand(kDestination, target, out)}));
  }

  Calls softmax(const Case&, std::span<const Tensor> in, Tensor& out) {
    Description rows = describe(plain(out));
    int axis = static_cast<int>(out.shape().size()) - 1;
    Plan rowwise = plan([&](PrimitiveDescriptor* made) {
      return api_.softmax_forward_primitive_desc_create(made, engine_, kInference, kSoftmax,
                                                        rows.get(), rows.get(), axis, nullptr);
    });
    return timed(call(rowwise, {operand(kSource, rows, in[0]), operand(kDestination, rows, out)}));
  }

  Calls layer_norm(const Case&, std::span<const Tensor> in, Tensor& out) {
    constexpr float kEpsilon = 0.00001F;
    Description rows = describe(plain(out)), parameter = describe(plain(in[1]));
    Plan norm = plan([&](PrimitiveDescriptor* made) {
      return api_.layer_normalization_forward_primitive_desc_create(
          made, engine_, kInference, rows.get(), rows.get(), nullptr, kEpsilon, kUseScaleAndShift,
          nullptr);
    });
    return timed(call(norm, {operand(kSource, rows, in[0]), operand(kScale, parameter, in[1]),
                             operand(kShift, parameter, in[2]), operand(kDestination, rows, out)}));
  }

  // Axes that the result lacks are reduced: all, the one named, the middle ones, the last.
  Calls reduction(const Case& c, std::span<const Tensor> in, Tensor& out) {
    const std::string& kind = c.workload->kind;
    Shape kept = in[0].shape();
    size_t last = kept.size() - 1;
    auto axis = static_cast<size_t>(attribute(c, "axis", static_cast<int64_t>(last)));
    for (size_t i = 0; i <= last; ++i) {
      bool middle = i > 0 && i < last;
      bool of_middle = kind == "sum_middle" || kind == "average_pool";
      if (kind == "sum_all" || (of_middle ? middle : i == axis)) kept[i] = 1;
    }
    int algorithm = kind == "max_rows"       ? kReduceMax
                    : kind == "average_pool" ? kReduceMean
                                             : kReduceSum;
    Description from = describe(plain(in[0])), to = describe(plain(out, kept));
    Plan reduce = plan([&](PrimitiveDescriptor* made) {
      return api_.reduction_primitive_desc_create(made, engine_, algorithm, from.get(), to.get(), 0,
                                                  0, nullptr);
    });
    return timed(call(reduce, {operand(kSource, from, in[0]), operand(kDestination, to, out)}));
  }

  Calls transpose(const Case&, std::span<const Tensor> in, Tensor& out) {
    Description from = describe(plain(in[0])), to = describe(view(out, out.shape(), {1, 0}));
    return timed(
        reorder(from.get(), over(from.get(), in[0].data()), to.get(), over(to.get(), out.data())));
  }

  Interface api_;
  int threads_;
  Engine engine_ = nullptr;
  Stream stream_ = nullptr;
};

}  // namespace

std::unique_ptr<Peer> make_onednn_at_run_time(int threads) {
  std::shared_ptr<Library> library = Library::open({"libdnnl.so.3"});
  if (!library) return nullptr;
  // A build for SYCL runs on a CPU only through a driver of its own, calls by calls: not the
  // library at its best.
  auto* version = library->function<const Version*()>("dnnl_version");
  if ((version()->cpu_runtime & kRuntimeSycl) != 0) return nullptr;
  return std::make_unique<OneDnn>(std::move(library), threads);
}

}  // namespace tile::bench
