#include "backends/cuda/driver/nvrtc.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <regex>
#include <sstream>

#include "backends/cuda/driver/compiler_thread.h"
#include "backends/cuda/driver/find_library.h"
#include "backends/cuda/driver/ptx_faults.h"
#include "core/support/control.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

constexpr std::array kOptions = {"--fmad=false", "--std=c++17", "--ptxas-options=--warn-on-spills",
                                 "--diag-suppress=177"};
// Leaves out types of textures and of the run-time library, which no kernel has: 4 ms of the 18 to
// 29 that the shortest kernels take. CUDA 12.4 on.
constexpr const char* kMinimal = "--minimal";
constexpr int kMinimalVersion = 12040;
// For what the optimiser of PTX makes wrong code of.
constexpr const char* kUnoptimised = "--ptxas-options=-O0";

const LibraryNames kLibrary{
    "TILE_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, {"cu13", "cuda_nvrtc"}};

// 90 of "sm_90a".
int architecture_number(const std::string& architecture) {
  size_t at = architecture.find('_');
  return at == std::string::npos ? 0 : std::atoi(architecture.c_str() + at + 1);
}

struct Program {
  const Nvrtc& nvrtc;
  nvrtcProgram handle = nullptr;
  ~Program() {
    if (handle != nullptr) nvrtc.nvrtcDestroyProgram_(&handle);
  }
};

// Asked by the compiler: 1 ends it.
int is_unwanted(void* unwanted, void*) {
  return static_cast<const std::atomic<bool>*>(unwanted)->load() ? 1 : 0;
}

int number(const std::ssub_match& match) { return std::atoi(match.str().c_str()); }

// The lines of the text around the first error that the log tells the line of.
std::string lines_in_error(const std::string& text, const std::string& log) {
  constexpr int kAround = 4;
  static const std::regex kPlace(R"(tile\.cu\((\d+)\): (?:catastrophic )?error)");
  std::smatch match;
  if (!std::regex_search(log, match, kPlace)) return "";
  int wrong = number(match[1]), at = 0;
  std::string quoted, line;
  for (std::istringstream lines(text); std::getline(lines, line);) {
    if (++at < wrong - kAround || at > wrong + kAround) continue;
    quoted += (at == wrong ? "\n> " : "\n  ") + line;
  }
  return quoted;
}

}  // namespace

bool Nvrtc::load(const std::string& path, std::string& why) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why = dlerror();
    return false;
  }
#define TILE_NVRTC_LOAD(name)                                           \
  name##_ = reinterpret_cast<decltype(name##_)>(dlsym(library, #name)); \
  if (name##_ == nullptr) {                                             \
    why = path + " has no " #name;                                      \
    return false;                                                       \
  }
  TILE_NVRTC_FUNCTIONS(TILE_NVRTC_LOAD)
#undef TILE_NVRTC_LOAD
  set_flow_callback_ = reinterpret_cast<SetFlowCallback>(dlsym(library, "nvrtcSetFlowCallback"));
  int major = 0, minor = 0;
  nvrtcVersion_(&major, &minor);
  version_ = major * 1000 + minor * 10;
  return true;
}

std::shared_ptr<const Nvrtc> Nvrtc::open(int driver_version) {
  std::string last;
  for (const std::string& path : places_of(kLibrary)) {
    std::shared_ptr<Nvrtc> made(new Nvrtc);
    std::string why;
    if (!made->load(path, why)) {
      bool absent = why.find("No such file") != std::string::npos;
      if (last.empty() || !absent) last = why;
      continue;
    }
    // Minor versions of one major version load each other's code.
    if (driver_version == 0 || made->version_ / 1000 <= driver_version / 1000) return made;
    last = path + " is of CUDA " + std::to_string(made->version_ / 1000) +
           ", and the driver supports CUDA " + std::to_string(driver_version / 1000) + " only";
  }
  fail(Stage::compile, "nvrtc", {}, "NVRTC, the compiler of CUDA, is not found: " + last,
       "install a CUDA toolkit or the wheel nvidia-cuda-nvrtc, or name libnvrtc.so in TILE_NVRTC");
}

std::string Nvrtc::options() {
  std::string out;
  for (const char* option : kOptions) out += (out.empty() ? "" : " ") + std::string(option);
  return out + ", " + kMinimal + " from " + std::to_string(kMinimalVersion) +
         ", negated minima of three with " + kUnoptimised;
}

void Nvrtc::check(nvrtcResult result, const char* what) const {
  if (result == NVRTC_SUCCESS) return;
  fail(Stage::compile, "nvrtc", {},
       std::string("NVRTC failed to ") + what + ": " + nvrtcGetErrorString_(result));
}

Compiled Nvrtc::compile(const std::string& text, const std::string& architecture) const {
  Control* control = current_control();
  if (control == nullptr) return translated(text, architecture, nullptr);
  struct Task {
    std::shared_ptr<const Nvrtc> nvrtc;
    std::string text, architecture;
    Compiled out;
  };
  auto task = std::make_shared<Task>(Task{shared_from_this(), text, architecture, {}});
  run_on_compiler_thread(*control, [task](const std::atomic<bool>& unwanted) {
    task->out = task->nvrtc->translated(task->text, task->architecture, &unwanted);
  });
  return std::move(task->out);
}

Compiled Nvrtc::translated(const std::string& text, const std::string& architecture,
                           const std::atomic<bool>* unwanted) const {
  bool faulty = false;
  Compiled out = translated(text, architecture, true, unwanted, faulty);
  return faulty ? translated(text, architecture, false, unwanted, faulty) : out;
}

Compiled Nvrtc::translated(const std::string& text, const std::string& architecture, bool optimised,
                           const std::atomic<bool>* unwanted, bool& faulty) const {
  Program program{*this};
  check(nvrtcCreateProgram_(&program.handle, text.c_str(), "tile.cu", 0, nullptr, nullptr),
        "take the generated text");
  std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options = {target.c_str()};
  options.insert(options.end(), kOptions.begin(), kOptions.end());
  if (version_ >= kMinimalVersion) options.push_back(kMinimal);
  if (!optimised) options.push_back(kUnoptimised);
  if (unwanted != nullptr && set_flow_callback_ != nullptr) {
    auto* given = const_cast<std::atomic<bool>*>(unwanted);  // a void* of C
    check(set_flow_callback_(program.handle, is_unwanted, given), "take a callback");
  }
  nvrtcResult result =
      nvrtcCompileProgram_(program.handle, static_cast<int>(options.size()), options.data());
  if (unwanted != nullptr && unwanted->load()) fail(Stage::compile, "cancelled", {}, "unwanted");
  Compiled out;
  size_t size = 0;
  if (nvrtcGetProgramLogSize_(program.handle, &size) == NVRTC_SUCCESS && size > 1) {
    out.log.resize(size);
    nvrtcGetProgramLog_(program.handle, out.log.data());
    out.log.resize(size - 1);
  }
  if (result != NVRTC_SUCCESS) {
    fail(Stage::compile, "nvrtc", {},
         "NVRTC refused the generated CUDA for " + architecture + ": " +
             nvrtcGetErrorString_(result) + (out.log.empty() ? "" : "\n" + out.log) +
             lines_in_error(text, out.log),
         "this is a fault of Tile JIT; please report the program and these lines");
  }
  std::string ptx;
  check(nvrtcGetPTXSize_(program.handle, &size), "tell the size of the PTX");
  ptx.resize(size);
  check(nvrtcGetPTX_(program.handle, ptx.data()), "give the PTX");
  // Below sm_90 no instruction has three operands.
  faulty = architecture_number(architecture) >= 90 && has_negated_minimum_of_three(ptx);
  auto keep = [&](const char* bytes, size_t count) {
    out.image.assign(reinterpret_cast<const std::byte*>(bytes),
                     reinterpret_cast<const std::byte*>(bytes) + count);
  };
  if (architecture.starts_with("compute_")) {
    faulty = false;  // the driver assembles it, of which nothing is known
    keep(ptx.data(), ptx.size());
  } else {
    check(nvrtcGetCUBINSize_(program.handle, &size), "tell the code's size");
    std::string code(size, '\0');
    check(nvrtcGetCUBIN_(program.handle, code.data()), "give the code");
    keep(code.data(), code.size());
  }
  read_log(out.log, out);
  return out;
}

void read_log(const std::string& log, Compiled& compiled) {
  // "ptxas warning : Registers are spilled to local memory in function 'k', 8 bytes spill stores,
  // 16 bytes spill loads"
  static const std::regex kSpill(
      "spilled to local memory in function '([^']*)', ([0-9]+) bytes spill stores, ([0-9]+) bytes");
  for (std::sregex_iterator it(log.begin(), log.end(), kSpill), end; it != end; ++it) {
    compiled.spills.push_back({(*it)[1].str(), number((*it)[2]), number((*it)[3])});
  }
  compiled.serialized_wgmma =
      log.find("C7508") != std::string::npos || log.find("C7510") != std::string::npos;
}

}  // namespace tile::cuda
