// The rows of the last stage, from a nest to code: what Backend::compile tells its observer of.
#pragma once

#include <array>

#include "core/support/pass.h"

namespace tile {

inline constexpr PassInfo kEmitLlvm{PassStage::code, "emit-llvm", false,
                                    "writes LLVM IR for a CPU and verifies it"};
inline constexpr PassInfo kMachineCode{PassStage::code, "machine-code", false,
                                       "runs LLVM's code generation"};
inline constexpr PassInfo kPrintCuda{PassStage::code, "print-cuda", false, "writes CUDA for a GPU"};
inline constexpr PassInfo kCompileCuda{PassStage::code, "compile-cuda", false,
                                       "runs NVRTC, the compiler of CUDA"};
inline constexpr PassInfo kLinkCode{PassStage::code, "link", false,
                                    "links code into the process or loads it on the device"};
inline constexpr std::array kCodePasses = {kEmitLlvm, kMachineCode, kPrintCuda, kCompileCuda,
                                           kLinkCode};

}  // namespace tile
