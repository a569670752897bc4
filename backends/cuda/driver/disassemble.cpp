#include "backends/cuda/driver/disassemble.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "core/support/diagnostic.h"

extern char** environ;

namespace tile::cuda {
namespace {

std::vector<std::string> folders() {
  std::vector<std::string> list;
  auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  std::stringstream path(value("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) list.push_back(folder);
  for (const std::string& root :
       {value("CUDA_PATH"), value("CUDA_HOME"), std::string("/usr/local/cuda")}) {
    if (!root.empty()) list.push_back(root + "/bin");
  }
  return list;
}

// The program's path and its options, empty where there is none.
std::vector<std::string> tool() {
  for (const char* name : {"cuobjdump", "nvdisasm"}) {
    for (const std::string& folder : folders()) {
      std::string path = folder + "/" + name;
      if (access(path.c_str(), X_OK) != 0) continue;
      if (std::string(name) == "cuobjdump") return {path, "--dump-sass"};
      return {path};
    }
  }
  return {};
}

// A file of this process alone, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::span<const std::byte> bytes) {
    int file = mkstemps(path_.data(), 6);
    if (file < 0) return;
    size_t done = 0;
    while (done < bytes.size()) {
      ssize_t count = write(file, bytes.data() + done, bytes.size() - done);
      if (count <= 0) break;
      done += static_cast<size_t>(count);
    }
    close(file);
    ok_ = done == bytes.size();
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  bool ok() const { return ok_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = std::filesystem::temp_directory_path().string() + "/tile-XXXXXX.cubin";
  bool ok_ = false;
};

// What the program writes; `status` is its exit status, or -1 where it does not run.
std::string output_of(const std::vector<std::string>& command, int& status) {
  std::array<int, 2> ends{};
  status = -1;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  int started = posix_spawn(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t count; started == 0 && (count = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  close(ends[0]);
  if (started == 0) waitpid(child, &status, 0);
  return text;
}

}  // namespace

std::string disassemble(std::span<const std::byte> cubin) {
  std::vector<std::string> command = tool();
  if (command.empty()) {
    fail(Stage::compile, "sass", {}, "neither cuobjdump nor nvdisasm is found",
         "install a CUDA toolkit, or print --stage ptx");
  }
  TemporaryFile file(cubin);
  if (!file.ok()) fail(Stage::compile, "sass", {}, "cannot write a temporary file");
  command.push_back(file.path());
  int status = 0;
  std::string text = output_of(command, status);
  if (status != 0) fail(Stage::compile, "sass", {}, command[0] + " failed: " + text);
  return text;
}

}  // namespace tile::cuda
