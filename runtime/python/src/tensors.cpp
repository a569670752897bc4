#include "tensors.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "errors.h"

namespace tilejit {
namespace {

struct NamedType {
  const char* name;    // ours
  const char* python;  // NumPy's, PyTorch's and JAX's
  DLDataType type;
};
constexpr NamedType kTypes[] = {
    {"f32", "float32", {kDLFloat, 32, 1}},
    {"f64", "float64", {kDLFloat, 64, 1}},
    {"f16", "float16", {kDLFloat, 16, 1}},
    {"bf16", "bfloat16", {kDLBfloat, 16, 1}},
    {"f8e4m3", "float8_e4m3fn", {kDLFloat8_e4m3fn, 8, 1}},
    {"f8e5m2", "float8_e5m2", {kDLFloat8_e5m2, 8, 1}},
    {"bool", "bool", {kDLBool, 8, 1}},
    {"i8", "int8", {kDLInt, 8, 1}},
    {"i16", "int16", {kDLInt, 16, 1}},
    {"i32", "int32", {kDLInt, 32, 1}},
    {"i64", "int64", {kDLInt, 64, 1}},
    {"u8", "uint8", {kDLUInt, 8, 1}},
    {"u16", "uint16", {kDLUInt, 16, 1}},
    {"u32", "uint32", {kDLUInt, 32, 1}},
    {"u64", "uint64", {kDLUInt, 64, 1}},
};

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// The attribute, or nothing where there is none.
nb::object attribute(nb::handle object, PyObject* name) {
  PyObject* found = PyObject_GetAttr(object.ptr(), name);
  if (found == nullptr) PyErr_Clear();
  return nb::steal(found);
}

std::string type_text(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

Kind kind_of(nb::handle type) {
  for (nb::handle base : nb::cast<nb::tuple>(type.attr("__mro__"))) {
    std::string module =
        nb::cast<std::string>(nb::str(nb::getattr(base, "__module__", nb::str(""))));
    std::string name = nb::cast<std::string>(nb::str(base.attr("__name__")));
    if (name == "MaskedArray" && module.rfind("numpy.ma", 0) == 0) {
      raise_type("a masked array is given, whose mask would be lost: give its filled() elements");
    }
    if (module == "numpy" && (name == "ndarray" || name == "generic")) return Kind::numpy;
    if (module == "torch" && name == "Tensor") return Kind::torch;
    if (module.rfind("jaxlib", 0) == 0 && name == "ArrayImpl") return Kind::jax;
    if (module.rfind("jax", 0) == 0 && name == "Tracer") {
      raise_argument(
          "a traced JAX array has no elements yet: make an operation with tilejit.jax.op");
    }
  }
  return nb::hasattr(type, "__array_namespace__") ? Kind::array_api : Kind::buffer;
}

const ExchangeApi* exchange_of(nb::handle type) {
  static PyObject* name = interned("__dlpack_c_exchange_api__");
  nb::object capsule = attribute(type, name);
  if (!capsule.is_valid()) return nullptr;
  auto* api =
      static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), kExchangeCapsule));
  if (api == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  bool usable = api->header.version.major == DLPACK_MAJOR_VERSION &&
                api->tensor_from_object != nullptr && api->allocate != nullptr &&
                api->object_from_managed != nullptr && api->current_stream != nullptr;
  return usable ? api : nullptr;
}

bool is_number(nb::handle object) {
  return PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr());  // bool is an int
}

}  // namespace

DLDataType type_named(const std::string& name) {
  for (const NamedType& t : kTypes) {
    if (name == t.name || name == t.python) return t.type;
  }
  return {0, 0, 0};
}

std::string name_of(DLDataType type) {
  for (const NamedType& t : kTypes) {
    if (same(t.type, type)) return t.name;
  }
  return "?";
}

const TypeInfo& info_of(nb::handle object) {
  struct Known {
    PyTypeObject* type;  // never freed, so that another type cannot take its place
    std::unique_ptr<TypeInfo> info;
  };
  static auto& known = *new std::vector<Known>;
  PyTypeObject* type = Py_TYPE(object.ptr());
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i].type != type) continue;
    if (i > 0) std::swap(known[i], known[i - 1]);  // what comes often comes to the front
    return *known[i > 0 ? i - 1 : i].info;
  }
  auto info = std::make_unique<TypeInfo>();
  nb::handle type_object(reinterpret_cast<PyObject*>(type));
  info->kind = is_number(object) ? Kind::number : kind_of(type_object);
  if (info->kind != Kind::number) info->exchange = exchange_of(type_object);
  info->in_place = info->kind == Kind::numpy && is_known_array(type_object);
  Py_INCREF(type_object.ptr());
  known.push_back({type, std::move(info)});
  return *known.back().info;
}

namespace {

// PyTorch stores no sign for the imaginary part of conjugated numbers: a bit of the tensor says
// that its elements are meant negated. They are then views of complex numbers, so that none is
// beside another.
bool may_be_negated(const DLTensor& t) {
  for (int32_t d = 0; d < t.ndim; ++d) {
    if (t.strides == nullptr || (t.shape[d] > 1 && t.strides[d] % 2 != 0)) return false;
  }
  return t.dtype.code == kDLFloat;
}

void refuse_negated(nb::handle tensor) {
  static PyObject* name = interned("is_neg");
  nb::object asked = attribute(tensor, name);
  if (!asked.is_valid() || !nb::cast<bool>(asked())) return;
  raise_argument(
      "a tensor whose elements are stored with the other sign is given: give tensor.resolve_neg()");
}

}  // namespace

size_t Argument::bytes() const {
  size_t bytes = static_cast<size_t>(tensor_.dtype.bits) / 8;
  for (int32_t d = 0; d < tensor_.ndim; ++d) bytes *= static_cast<size_t>(tensor_.shape[d]);
  return bytes;
}

bool Argument::exchange(nb::handle object, bool writable) {
  if (info_->in_place) return read_array(object, writable, tensor_, layout_);
  if (info_->exchange == nullptr) return false;
  if (info_->exchange->tensor_from_object(object.ptr(), &tensor_) != 0) throw nb::python_error();
  check_shape(tensor_);
  if (info_->kind == Kind::torch && may_be_negated(tensor_)) refuse_negated(object);
  return true;
}

// A view stands for the object, which could answer for itself in another way the second time.
bool Argument::take_buffer(nb::handle object, bool writable) {
  nb::object view = nb::steal(PyMemoryView_FromObject(object.ptr()));
  if (!view.is_valid()) {
    PyErr_Clear();
    return false;
  }
  nb::ndarray<> both_ways;
  bool taken = writable ? nb::try_cast(view, both_ways, false) : nb::try_cast(view, array_, false);
  if (!taken) return false;
  if (writable) array_ = nb::ndarray<nb::ro>(both_ways);
  nb::dlpack::dtype type = array_.dtype();
  tensor_ = {const_cast<void*>(static_cast<const void*>(array_.data())),
             {kDLCPU, 0},
             static_cast<int32_t>(array_.ndim()),
             {type.code, type.bits, type.lanes},
             const_cast<int64_t*>(array_.shape_ptr()),
             const_cast<int64_t*>(array_.stride_ptr()),
             0};
  return true;
}

bool Argument::adopt(nb::handle object, bool writable) {
  if (!foreign_.take(object, writable)) return take_buffer(object, writable);
  tensor_ = foreign_.tensor();
  return true;
}

// What neither protocol gives, such as NumPy's arrays of bfloat16, comes as a view of like
// elements.
void Argument::import(nb::handle object, const std::string& what) {
  if (adopt(object, false)) return;
  static Helper viewed("tilejit._support", "as_plain_array");
  nb::tuple plain = nb::cast<nb::tuple>(viewed.get()(object, what));
  converted_ = plain[0];
  if (!adopt(converted_, false)) {
    raise_type(what + " is a " + type_text(object) +
               ": expected an array (DLPack or buffer protocol) or a number");
  }
  tensor_.dtype = type_named(nb::cast<std::string>(plain[1]));
}

void Argument::put(double real, int64_t integer, DLDataType type, size_t at) {
  unsigned char* to = numbers_ + at * (type.bits / 8);
  auto store = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  if (type.code == kDLFloat) return type.bits == 64 ? store(real) : store(static_cast<float>(real));
  switch (type.bits) {
    case 8:
      return store(static_cast<int8_t>(integer));
    case 16:
      return store(static_cast<int16_t>(integer));
    case 32:
      return store(static_cast<int32_t>(integer));
    default:
      return store(integer);
  }
}

namespace {

int64_t integer_of(nb::handle number) {
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) raise_argument("an integer of more than 64 bits is given: no type holds it");
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

double real_of(nb::handle number) {
  double value = PyFloat_AsDouble(number.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

// The type that a number has where the program declares none.
DLDataType natural_type(nb::handle number) {
  if (PyBool_Check(number.ptr())) return {kDLBool, 8, 1};
  if (PyFloat_Check(number.ptr())) return {kDLFloat, 32, 1};
  int64_t value = integer_of(number);
  bool fits =
      value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max();
  return {kDLInt, static_cast<uint8_t>(fits ? 32 : 64), 1};
}

DLDataType number_type(nb::handle number, const InputDeclaration& declared) {
  DLDataType type = type_named(declared.type);
  bool narrow = type.code == kDLFloat && type.bits < 32;
  bool direct = type.bits != 0 && !narrow && type.code <= kDLFloat;
  direct = direct || type.code == kDLBool;
  if (type.bits != 0 && !direct) {
    raise_type(declared.text + " holds " + declared.type + ": give an array of it");
  }
  if (!direct) return natural_type(number);
  if (type.code != kDLFloat && PyFloat_Check(number.ptr())) {
    raise_type(declared.text + " holds " + declared.type + ", but a float is given");
  }
  return type;
}

bool fits(int64_t value, DLDataType type) {
  if (type.code == kDLBool) return value == 0 || value == 1;
  if (type.bits == 64) return type.code == kDLInt || value >= 0;
  int64_t width = int64_t{1} << (type.bits - (type.code == kDLInt ? 1 : 0));
  return value < width && value >= (type.code == kDLInt ? -width : 0);
}

}  // namespace

bool Argument::take_numbers(nb::handle list, const InputDeclaration& declared) {
  nb::object items = nb::steal(PySequence_Tuple(list.ptr()));
  if (!items.is_valid()) throw nb::python_error();
  auto count = static_cast<size_t>(nb::len(items));
  if (count == 0) return false;
  nb::tuple all = nb::borrow<nb::tuple>(items);
  for (size_t i = 0; i < count; ++i) {
    if (!is_number(all[i])) return false;
  }
  DLDataType type = number_type(all[0], declared);
  if (count * (type.bits / 8) > sizeof numbers_) return false;
  for (size_t i = 0; i < count; ++i) {
    nb::object item = all[i];
    bool whole = type.code != kDLFloat;
    double real = whole ? 0 : real_of(item);
    int64_t integer = whole && !PyFloat_Check(item.ptr()) ? integer_of(item) : 0;
    if (whole && (PyFloat_Check(item.ptr()) || !fits(integer, type))) {
      raise_argument(declared.text + " holds " + name_of(type) + ", which " +
                     nb::cast<std::string>(nb::str(item)) + " does not fit");
    }
    put(real, integer, type, i);
  }
  tensor_.dtype = type;
  shape_ = {static_cast<int64_t>(count)};
  return true;
}

bool Argument::take_number(nb::handle number, const InputDeclaration& declared) {
  if (!take_numbers(nb::make_tuple(number), declared)) return false;
  shape_.clear();
  return true;
}

void Argument::read(nb::handle object, const InputDeclaration& declared) {
  info_ = &info_of(object);
  bool list = declared.has_default && (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr()));
  if (info_->kind == Kind::number ? take_number(object, declared)
                                  : list && take_numbers(object, declared)) {
    tensor_.data = numbers_;
    tensor_.device = {kDLCPU, 0};
    tensor_.ndim = static_cast<int32_t>(shape_.size());
    tensor_.shape = shape_.data();
    return;
  }
  if (!exchange(object, false)) import(object, declared.text);
}

void Argument::describe(nb::handle object, const InputDeclaration& declared) {
  static PyObject *shape = interned("shape"), *dtype = interned("dtype");
  nb::object sizes = attribute(object, shape), type = attribute(object, dtype);
  if (is_number(object) || !sizes.is_valid() || !type.is_valid()) return read(object, declared);
  info_ = &info_of(object);
  std::string name = nb::cast<std::string>(nb::str(type));
  if (name.rfind("torch.", 0) == 0) name = name.substr(6);
  tensor_.dtype = type_named(name);
  if (tensor_.dtype.bits == 0) {
    raise_type(declared.text + " is described as of " + name +
               ", which is no element type: expected bool, i8 to i64, u8 to u64, f8e4m3, f8e5m2, "
               "f16, bf16, f32, f64, or NumPy's name of one, such as float32");
  }
  for (nb::handle size : nb::iter(sizes)) {
    nb::object whole = nb::steal(PyNumber_Index(size.ptr()));
    if (!whole.is_valid()) throw nb::python_error();
    shape_.push_back(integer_of(whole));
  }
  tensor_.device = {kDLCPU, 0};
  tensor_.ndim = static_cast<int32_t>(shape_.size());
  tensor_.shape = shape_.data();
}

void Argument::layout(nb::handle object, const InputDeclaration& declared) {
  bool array = info_of(object).kind != Kind::buffer || nb::hasattr(object, "__dlpack__");
  return array ? read(object, declared) : describe(object, declared);
}

void Argument::refuse_gradient(nb::handle object) const {
  static PyObject* name = interned("requires_grad");
  if (info_->kind != Kind::torch) return;
  nb::object wanted = attribute(object, name);
  if (!wanted.is_valid() || wanted.ptr() != Py_True) return;
  static Helper enabled("torch", "is_grad_enabled");
  if (!nb::cast<bool>(enabled.get()())) return;
  raise_argument(
      "a tensor that requires grad is given, and a program called by itself has no backward: make "
      "an "
      "operation with tilejit.torch.op, or call it under torch.no_grad() or with tensor.detach()");
}

void Argument::write(nb::handle object, const std::string& text) {
  info_ = &info_of(object);
  if (info_->kind == Kind::number) raise_type(text + " is a number: give an array");
  if (info_->kind == Kind::jax) {
    raise_type(text + " is a JAX array, which nothing may write to");
  }
  if (exchange(object, true)) return;
  if (adopt(object, true)) return;
  static Helper viewed("tilejit._support", "as_writable_array");
  nb::tuple plain = nb::cast<nb::tuple>(viewed.get()(object, text));
  converted_ = plain[0];
  if (!adopt(converted_, true)) {
    raise_type(text + " is a " + type_text(object) + ": expected a writable array");
  }
  tensor_.dtype = type_named(nb::cast<std::string>(plain[1]));
}

}  // namespace tilejit
