// Python objects as the library's tensors, and results as objects of the caller's kind.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exchange.h"
#include "foreign_tensor.h"
#include "numpy_array.h"
#include "tile/tile.h"

namespace tilejit {

namespace nb = nanobind;

// What makes arrays like an argument.
enum class Kind : uint8_t {
  number,  // int, float, bool: no array
  buffer,  // memoryview, bytes, array.array: results are NumPy's
  numpy,
  torch,
  jax,
  array_api,  // anything else that speaks DLPack and has __array_namespace__
};

struct TypeInfo {
  Kind kind = Kind::buffer;
  const ExchangeApi* exchange = nullptr;
  bool in_place = false;  // arrays of NumPy whose fields are read
};

// Of an object's type, looked up once for each type.
const TypeInfo& info_of(nb::handle object);

struct InputDeclaration {
  std::string name;
  std::string type;  // "f32"; empty: any
  bool has_default = false;
  std::string text;  // "input A (0)", as the library's errors call it
};

// One argument of a call as a DLTensor, with what keeps its elements alive.
class Argument {
 public:
  Argument() = default;
  Argument(const Argument&) = delete;
  Argument& operator=(const Argument&) = delete;

  // Numbers become tensors of the declared type, else of f32, i32 (i64 where it is too large) or
  // bool. Raises TypeError for what is no array. The object must outlive the use.
  void read(nb::handle object, const InputDeclaration& declared);
  // Shape and element type alone, of whatever has them: no elements are touched.
  void describe(nb::handle object, const InputDeclaration& declared);
  // What a program is compiled for: of an array with its strides, else as describe().
  void layout(nb::handle object, const InputDeclaration& declared);
  // Raises an error for a tensor that would lose its gradient without a word.
  void refuse_gradient(nb::handle object) const;
  // An array that is written to. Raises TypeError, ValueError where it is read-only.
  // `text`: "output O (0)".
  void write(nb::handle object, const std::string& text);

  const DLTensor& tensor() const { return tensor_; }
  DLTensor& tensor() { return tensor_; }
  const TypeInfo& info() const { return *info_; }
  size_t bytes() const;

 private:
  void import(nb::handle object, const std::string& what);
  // By DLPack's protocol or the buffer protocol.
  bool adopt(nb::handle object, bool writable);
  // By the functions of its framework or the fields of the object, which must outlive the use.
  bool exchange(nb::handle object, bool writable);
  bool take_buffer(nb::handle object, bool writable);
  bool take_number(nb::handle object, const InputDeclaration& declared);
  bool take_numbers(nb::handle object, const InputDeclaration& declared);
  void put(double real, int64_t integer, DLDataType type, size_t at);

  DLTensor tensor_{};
  const TypeInfo* info_ = nullptr;
  ForeignTensor foreign_;
  nb::ndarray<nb::ro> array_;
  nb::object converted_;
  std::vector<int64_t> shape_;
  NumpyLayout layout_;
  alignas(16) unsigned char numbers_[64] = {};
};

// "f32" and DLPack's word for it.
DLDataType type_named(const std::string& name);  // bits == 0: no such type
std::string name_of(DLDataType type);
inline bool same(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

// Memory for a result, then the array around it.
class Result {
 public:
  Result() = default;
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result();

  // As `description` says, of the kind of `like`.
  void allocate(const DLTensor& description, const TypeInfo& like, nb::handle like_object);
  DLTensor* tensor() { return tensor_; }
  nb::object object();

 private:
  void allocate_empty(const DLTensor& description, nb::handle like);
  void allocate_exchange(const DLTensor& description, const ExchangeApi& api);
  void allocate_own(const DLTensor& description);

  DLTensor* tensor_ = nullptr;
  Argument array_;  // NumPy
  nb::object made_;
  DLManagedTensorVersioned* managed_ = nullptr;  // by the exchange functions
  const ExchangeApi* api_ = nullptr;
  DLTensor own_{};  // memory of ours, handed over by DLPack
  nb::object like_;
  Kind kind_ = Kind::numpy;
};

}  // namespace tilejit
