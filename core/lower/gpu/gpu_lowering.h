// The forms of GPUs (kernel/forms/gpu_forms.h): what lower() calls. Private to core/lower.
#pragma once

#include "core/lower/piece/lowering.h"

namespace tile::lowering {

// Whether the schedule gives the piece a form of its own on a GPU; other pieces are loops.
nest::Block lower_gpu_form(PieceLowering& piece);

nest::Block lower_gpu_reduction(TileParts& parts, const GpuReduction& g);
nest::Block lower_gpu_scan(TileParts& parts, const GpuScan& g);
// The cells of a thread in one turn: sets of registers, parts, and neighbours in each.
Shape scan_shape(const GpuScan& g);
nest::Block lower_gpu_transpose(TileParts& parts, const GpuTranspose& g);
nest::Block lower_simt_gemm(TileParts& parts, const SimtGemm& g);
nest::Block lower_tensor_core_gemm(TileParts& parts, const TensorCoreGemm& schedule);

// A row kernel: a block takes whole rows, one stage after the other.
nest::Block lower_lines(Frame& frame, const Schedule& schedule);
// A kernel with a streamed axis: a block takes some rows, and blocks of columns pass by.
nest::Block lower_gpu_stream(Frame& frame, const Schedule& schedule);

}  // namespace tile::lowering
