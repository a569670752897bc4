// NVRTC for tests: compiles the kernels for the host with the emulation header, so that the fake
// driver can run them. "PTX" is the text itself.
#include <fcntl.h>
#include <nvrtc.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

extern char** environ;

struct _nvrtcProgram {
  std::string text, log, image;
};

namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

int run(const std::vector<std::string>& words, const std::string& log) {
  std::vector<char*> list;
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  int started = posix_spawnp(&child, list[0], &actions, nullptr, list.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  if (started == 0) waitpid(child, &status, 0);
  return status;
}

// With TILE_FAKE_NVRTC_SPILLS set the first text that comes spills, whenever it comes again.
bool spills(const std::string& text) {
  static std::mutex mutex;
  static std::string first;
  std::lock_guard lock(mutex);
  if (std::getenv("TILE_FAKE_NVRTC_SPILLS") == nullptr) {
    first.clear();
    return false;
  }
  if (first.empty()) first = text;
  return text == first;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}
EXPORT const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}
EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char*, int,
                                      const char* const*, const char* const*) {
  *program = new _nvrtcProgram{text, "", ""};
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int, const char* const*) {
  if (std::getenv("TILE_FAKE_NVRTC_REFUSES") != nullptr) {
    program->log = "tile.cu(2): error: refused as the test asked";
    return NVRTC_ERROR_COMPILATION;
  }
  char folder[] = "/tmp/tile-fake-nvrtc-XXXXXX";
  if (mkdtemp(folder) == nullptr) return NVRTC_ERROR_OUT_OF_MEMORY;
  std::string at = folder;
  std::ofstream(at + "/kernel.cpp") << program->text;
  // Without the compiler's own libraries, of which one would be the sanitizer's.
  int status =
      run({TILE_HOST_COMPILER, TILE_EMULATION_FLAGS, "-shared", "-nodefaultlibs", "-include",
           TILE_EMULATION, "-o", at + "/kernel.so", at + "/kernel.cpp", TILE_MACHINE},
          at + "/log");
  program->log = read_file(at + "/log");
  if (spills(program->text)) {
    program->log +=
        "ptxas warning : Registers are spilled to local memory in function 'tile_0', 8 "
        "bytes spill stores, 8 bytes spill loads";
  }
  program->image = read_file(at + "/kernel.so");
  for (const char* name : {"/kernel.cpp", "/kernel.so", "/log"}) unlink((at + name).c_str());
  rmdir(folder);
  return status == 0 ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}
EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  *size = program->image.size();
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* image) {
  std::memcpy(image, program->image.data(), program->image.size());
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* size) {
  *size = program->text.size() + 1;
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* text) {
  std::memcpy(text, program->text.c_str(), program->text.size() + 1);
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  *size = program->log.size() + 1;
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}
