#include "foreign_tensor.h"

#include <string>

#include "errors.h"

namespace tilejit {
namespace {

constexpr const char *kPlain = "dltensor", *kVersioned = "dltensor_versioned";
// What a tensor's rank may be, as the library has it.
constexpr int32_t kRankLimit = 64;

// What was raised is forgotten, if a handler of Exception would have caught it.
void forget_exception() {
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw nb::python_error();
  PyErr_Clear();
}

// The keyword argument that says what is understood here.
PyObject* newest_version() {
  nb::dict keywords;
  keywords["max_version"] = nb::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  return keywords.release().ptr();
}

// DLPack's newer form is asked for, of producers that know it.
nb::object capsule_of(nb::handle object) {
  static PyObject* name = PyUnicode_InternFromString("__dlpack__");
  nb::object method = nb::steal(PyObject_GetAttr(object.ptr(), name));
  if (!method.is_valid()) {
    forget_exception();
    return {};
  }
  static PyObject* newest = newest_version();
  static PyObject* none = PyTuple_New(0);
  nb::object capsule = nb::steal(PyObject_Call(method.ptr(), none, newest));
  if (capsule.is_valid()) return capsule;
  bool older = PyErr_ExceptionMatches(PyExc_TypeError) != 0;
  forget_exception();
  if (!older) return {};
  capsule = nb::steal(PyObject_CallNoArgs(method.ptr()));
  if (!capsule.is_valid()) forget_exception();
  return capsule;
}

// The pointer of a capsule of that name, or null.
template <class T>
T* pointer_of(nb::handle capsule, const char* name) {
  if (PyCapsule_IsValid(capsule.ptr(), name) == 0) return nullptr;
  return static_cast<T*>(PyCapsule_GetPointer(capsule.ptr(), name));
}

// The tensor is ours now.
void mark_used(nb::handle capsule, const char* name) {
  if (PyCapsule_SetName(capsule.ptr(), name) != 0) throw nb::python_error();
  if (PyCapsule_SetDestructor(capsule.ptr(), nullptr) != 0) throw nb::python_error();
}

}  // namespace

void check_shape(const DLTensor& t) {
  if (t.ndim < 0 || t.ndim > kRankLimit) {
    raise_argument("a tensor of rank " + std::to_string(t.ndim) +
                   " is given by DLPack: ranks are from 0 to " + std::to_string(kRankLimit));
  }
  if (t.ndim > 0 && t.shape == nullptr) {
    raise_argument("a tensor of rank " + std::to_string(t.ndim) +
                   " without a shape is given by DLPack");
  }
}

bool ForeignTensor::take_capsule(nb::handle capsule, bool writable) {
  if (auto* plain = pointer_of<DLManagedTensor>(capsule, kPlain)) {
    check_shape(plain->dl_tensor);
    mark_used(capsule, "used_dltensor");
    plain_ = plain;
    return true;
  }
  auto* versioned = pointer_of<DLManagedTensorVersioned>(capsule, kVersioned);
  if (versioned == nullptr) return false;
  if (versioned->version.major != DLPACK_MAJOR_VERSION) {  // the rest may lie elsewhere
    raise_argument("a tensor of DLPack " + std::to_string(versioned->version.major) +
                   " is given: version " + std::to_string(DLPACK_MAJOR_VERSION) + " is known here");
  }
  if (writable && (versioned->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0) {
    raise_argument("an array for results is read-only");
  }
  check_shape(versioned->dl_tensor);
  mark_used(capsule, "used_dltensor_versioned");
  versioned_ = versioned;
  return true;
}

bool ForeignTensor::take(nb::handle object, bool writable) {
  if (PyCapsule_CheckExact(object.ptr())) return take_capsule(object, writable);
  nb::object capsule = capsule_of(object);
  if (!capsule.is_valid() || !PyCapsule_CheckExact(capsule.ptr())) return false;
  return take_capsule(capsule, writable);
}

DLTensor& ForeignTensor::tensor() {
  return versioned_ != nullptr ? versioned_->dl_tensor : plain_->dl_tensor;
}

ForeignTensor::~ForeignTensor() {
  if (plain_ != nullptr && plain_->deleter != nullptr) plain_->deleter(plain_);
  if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
}

}  // namespace tilejit
