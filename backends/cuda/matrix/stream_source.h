// Device functions of kernels with a streamed axis: copies into swizzled lines of shared memory,
// and products whose sums, and first factors, are in registers: by warps (mma, sm_80 up), or by
// groups of four warps (wgmma, sm_90a); or by threads, where factors are f32.
#pragma once

#include <cstdint>
#include <string>

namespace tile::cuda {

// Once for each translation unit, after prelude(). The emulation of the tests has its own versions.
std::string stream_prelude();
// The same of wgmma.
std::string stream_group_prelude();
// The same of threads that multiply factors of f32.
std::string stream_threads_prelude();

// wgmma's functions of sums of `columns` columns, whose factors have this C type: `NAME_shared`
// takes descriptors of both factors, the second along k (`NAME_first` does, and sets the sums);
// `NAME_registers` four words of the first, and the second across k.
std::string stream_group_functions(const std::string& name, int64_t columns,
                                   const std::string& type);

// The constant part of the descriptor of a factor whose lines of 128 bytes hold k, or, in blocks of
// `lines` lines, one k each.
uint64_t stream_descriptor(bool along_k, int64_t lines);

}  // namespace tile::cuda
