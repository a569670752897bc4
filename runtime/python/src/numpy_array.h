// The fields of NumPy's arrays, which are read in place where their layout is the one known here.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "tile/dlpack.h"

namespace tilejit {

namespace nb = nanobind;

// What DLPack says of an array, by a fortieth of the work of asking for it.
struct NumpyLayout {
  static constexpr int kRank = 8;
  int64_t shape[kRank];
  int64_t strides[kRank];
};

// Whether `type` is numpy.ndarray itself and its objects have the layout of NumPy 1 and 2, as a few
// of them are asked.
bool is_known_array(nb::handle type);

// Whether this array of that type is aligned, of a type of the processor's own and of few
// dimensions, and for `writable` one that may be written to; then `tensor` is its elements and
// `layout` its sizes.
bool read_array(nb::handle array, bool writable, DLTensor& tensor, NumpyLayout& layout);

}  // namespace tilejit
