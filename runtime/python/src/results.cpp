// Memory for results, of the kind of the caller's arrays.
#include <algorithm>
#include <new>
#include <utility>

#include "errors.h"
#include "tensors.h"

namespace tilejit {

Result::~Result() {
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
}

void Result::allocate(const DLTensor& description, const TypeInfo& like, nb::handle object) {
  kind_ = like.kind;
  if (like.exchange != nullptr) return allocate_exchange(description, *like.exchange);
  if (kind_ == Kind::jax || kind_ == Kind::array_api) {
    like_ = nb::borrow(object);
    return allocate_own(description);
  }
  allocate_empty(description, object);
}

namespace {

// What numpy.empty takes, kept for each type.
nb::handle numpy_type(DLDataType type) {
  static auto& known = *new std::vector<std::pair<DLDataType, PyObject*>>;
  for (const auto& [seen, object] : known) {
    if (same(seen, type)) return object;
  }
  static Helper make("tilejit._support", "numpy_dtype");
  nb::object object = make.get()(name_of(type));
  known.emplace_back(type, object.release().ptr());
  return known.back().second;
}

nb::object shape_tuple(const DLTensor& t) {
  nb::object tuple = nb::steal(PyTuple_New(t.ndim));
  for (int32_t d = 0; d < t.ndim; ++d) {
    PyTuple_SetItem(tuple.ptr(), d, PyLong_FromLongLong(t.shape[d]));
  }
  return tuple;
}

}  // namespace

void Result::allocate_empty(const DLTensor& description, nb::handle like) {
  if (kind_ == Kind::torch) {  // of a version without the exchange functions
    static Helper empty("tilejit._support", "torch_empty");
    made_ = empty.get()(shape_tuple(description), name_of(description.dtype), like);
  } else {
    static Helper empty("numpy", "empty");
    made_ = nb::object(empty.get()(shape_tuple(description), numpy_type(description.dtype)));
  }
  array_.write(made_, "");
  tensor_ = &array_.tensor();
}

void Result::allocate_exchange(const DLTensor& description, const ExchangeApi& api) {
  api_ = &api;
  DLTensor prototype = description;
  auto failed = [](void* context, const char*, const char* message) {
    *static_cast<std::string*>(context) = message;
  };
  std::string why;
  if (api.allocate(&prototype, &managed_, &why, failed) != 0) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    raise_argument("no memory for the result: " + why);
  }
  tensor_ = &managed_->dl_tensor;
}

void Result::allocate_own(const DLTensor& description) {
  constexpr std::align_val_t kLine{64};  // what JAX takes without a copy
  if (description.device.device_type != kDLCPU) {
    raise_argument("results of this kind of array can only be made in host memory: give out=");
  }
  size_t bytes = description.dtype.bits / 8;
  std::vector<size_t> shape;
  for (int32_t d = 0; d < description.ndim; ++d) {
    shape.push_back(static_cast<size_t>(description.shape[d]));
    bytes *= shape.back();
  }
  void* data = ::operator new(std::max<size_t>(bytes, 64), kLine);
  nb::capsule owner(data, [](void* p) noexcept { ::operator delete(p, kLine); });
  nb::dlpack::dtype type{description.dtype.code, description.dtype.bits, description.dtype.lanes};
  made_ =
      nb::cast(nb::ndarray<nb::array_api>(data, shape.size(), shape.data(), owner, nullptr, type));
  own_ = description;
  own_.data = data;
  own_.strides = nullptr;
  tensor_ = &own_;
}

nb::object Result::object() {
  if (managed_ != nullptr) {
    void* made = nullptr;
    if (api_->object_from_managed(std::exchange(managed_, nullptr), &made) != 0) {
      throw nb::python_error();
    }
    return nb::steal(static_cast<PyObject*>(made));
  }
  if (!like_.is_valid()) return std::move(made_);
  static Helper convert("tilejit._support", "from_dlpack");
  return convert.get()(made_, like_);
}

}  // namespace tilejit
