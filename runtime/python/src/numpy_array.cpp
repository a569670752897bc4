#include "numpy_array.h"

#include <iterator>
#include <typeinfo>

namespace tilejit {
namespace {

// Own declarations of NumPy's public layout (PyArrayObject_fields, PyArray_Descr), whose first
// fields are those of versions 1 and 2.
struct Description {
  PyObject header;
  PyTypeObject* type;
  char kind, letter, order, former_flags;
  int number;
};
struct Array {
  PyObject header;
  char* data;
  int rank;
  Py_ssize_t* shape;
  Py_ssize_t* strides;  // in bytes
  PyObject* base;
  Description* description;
  int flags;
};
constexpr int kAligned = 0x100, kWritable = 0x400, kWarns = static_cast<int>(0x80000000U);
constexpr char kNative = '=', kOfBytes = '|';

// By NumPy's numbers of types; no bits: taken another way.
constexpr DLDataType kTypes[] = {
    {kDLBool, 8, 1},   {kDLInt, 8, 1},    {kDLUInt, 8, 1},  {kDLInt, 16, 1},
    {kDLUInt, 16, 1},  {kDLInt, 32, 1},   {kDLUInt, 32, 1}, {kDLInt, 64, 1},  // "long"
    {kDLUInt, 64, 1},  {kDLInt, 64, 1},   {kDLUInt, 64, 1},                   // "long long"
    {kDLFloat, 32, 1}, {kDLFloat, 64, 1},
};
static_assert(sizeof(long) == 8);
constexpr int kHalf = 23;

DLDataType type_of(const Description& d) {
  if (d.order != kNative && d.order != kOfBytes) return {0, 0, 0};
  if (d.number == kHalf) return {kDLFloat, 16, 1};
  bool known = d.number >= 0 && d.number < static_cast<int>(std::size(kTypes));
  return known ? kTypes[d.number] : DLDataType{0, 0, 0};
}

const Array& fields(nb::handle array) { return *reinterpret_cast<const Array*>(array.ptr()); }

int64_t number(const nb::object& object) { return nb::cast<int64_t>(object); }

bool has_known_fields(nb::handle type, const char* dtype) {
  nb::object made = type(nb::make_tuple(3, 5), nb::arg("dtype") = dtype, nb::arg("order") = "F");
  const Array& a = fields(made);
  nb::object dtype_object = made.attr("dtype");
  nb::object address = made.attr("__array_interface__")["data"][0];
  if (a.rank != 2 || a.flags != number(made.attr("flags").attr("num")) ||
      reinterpret_cast<intptr_t>(a.data) != number(address) ||
      static_cast<void*>(a.description) != dtype_object.ptr()) {
    return false;
  }
  int64_t bytes = number(dtype_object.attr("itemsize"));
  nb::str order = nb::cast<nb::str>(dtype_object.attr("byteorder"));
  return a.shape[0] == 3 && a.shape[1] == 5 && a.strides[0] == bytes && a.strides[1] == 3 * bytes &&
         a.description->number == number(dtype_object.attr("num")) &&
         a.description->order == order.c_str()[0];
}

}  // namespace

bool is_known_array(nb::handle type) {
  try {
    if (!type.is(nb::module_::import_("numpy").attr("ndarray"))) return false;
    for (const char* dtype : {"int16", "float64", ">f4", "bool"}) {
      if (!has_known_fields(type, dtype)) return false;
    }
    return true;
  } catch (nb::python_error&) {
  } catch (const std::bad_cast&) {
  }
  return false;
}

bool read_array(nb::handle array, bool writable, DLTensor& tensor, NumpyLayout& layout) {
  const Array& a = fields(array);
  int wanted = kAligned | (writable ? kWritable : 0);
  if ((a.flags & wanted) != wanted || (writable && (a.flags & kWarns) != 0)) return false;
  DLDataType type = type_of(*a.description);
  if (type.bits == 0 || a.rank > NumpyLayout::kRank) return false;
  int64_t bytes = type.bits / 8;
  for (int d = 0; d < a.rank; ++d) {
    if (a.strides[d] % bytes != 0) return false;
    layout.shape[d] = a.shape[d];
    layout.strides[d] = a.strides[d] / bytes;
  }
  tensor = {a.data, {kDLCPU, 0}, a.rank, type, layout.shape, layout.strides, 0};
  return true;
}

}  // namespace tilejit
