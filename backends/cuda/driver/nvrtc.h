// NVRTC, opened at run time: CUDA C++ text to machine code.
#pragma once

#include <nvrtc.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace tile::cuda {

// What the compiler of PTX said of one kernel that does not fit its registers.
struct Spill {
  std::string kernel;
  int store_bytes = 0;
  int load_bytes = 0;
};

struct Compiled {
  std::vector<std::byte> image;  // a cubin, or PTX text for an architecture "compute_…"
  std::string log;
  std::vector<Spill> spills;
  bool serialized_wgmma = false;  // C7508, C7510: asynchronous matrix products wait for each other
};

#define TILE_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)               \
  X(nvrtcGetErrorString)        \
  X(nvrtcCreateProgram)         \
  X(nvrtcDestroyProgram)        \
  X(nvrtcCompileProgram)        \
  X(nvrtcGetCUBINSize)          \
  X(nvrtcGetCUBIN) X(nvrtcGetPTXSize) X(nvrtcGetPTX) X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog)

class Nvrtc : public std::enable_shared_from_this<Nvrtc> {
 public:
  // Opens the library that TILE_NVRTC names, else the first of: the loader's path, CUDA_PATH,
  // CUDA_HOME, /usr/local/cuda, NVIDIA's wheels in the Python environment; one that is newer than
  // `driver_version` (13000 for 13.0; 0: any) is passed over, since the driver would refuse its
  // code. Throws Failure (compile, "nvrtc").
  static std::shared_ptr<const Nvrtc> open(int driver_version);

  int version() const { return version_; }  // 13000 for 13.0
  // For "sm_90a" a cubin, for "compute_90a" PTX. What ptxas would translate wrongly (ptx_faults.h)
  // is compiled without its optimiser. Thread safe. Throws Failure (compile, "nvrtc") with the
  // compiler's log, and at once the reason of the thread's control where that ends it: the compiler
  // then ends by itself, from CUDA 12.8 on as soon as it asks whether it is wanted.
  Compiled compile(const std::string& text, const std::string& architecture) const;
  // The options that compile() gives, for cache keys.
  static std::string options();

#define TILE_NVRTC_MEMBER(name) decltype(&::name) name##_ = nullptr;
  TILE_NVRTC_FUNCTIONS(TILE_NVRTC_MEMBER)
#undef TILE_NVRTC_MEMBER

 private:
  // nvrtcSetFlowCallback(), of CUDA 12.8 on; else null.
  using SetFlowCallback = nvrtcResult (*)(nvrtcProgram, int (*)(void* control, void*), void*);
  SetFlowCallback set_flow_callback_ = nullptr;
  Nvrtc() = default;
  bool load(const std::string& path, std::string& why);
  void check(nvrtcResult result, const char* what) const;
  // `unwanted` may be null; where it becomes true a Failure is thrown that nobody waits for.
  Compiled translated(const std::string& text, const std::string& architecture,
                      const std::atomic<bool>* unwanted) const;
  Compiled translated(const std::string& text, const std::string& architecture, bool optimised,
                      const std::atomic<bool>* unwanted, bool& faulty) const;
  int version_ = 0;
};

// Spills and serialised matrix products in a log of NVRTC or nvcc.
void read_log(const std::string& log, Compiled& compiled);

}  // namespace tile::cuda
