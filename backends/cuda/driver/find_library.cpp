#include "backends/cuda/driver/find_library.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace tile::cuda {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class Places {
 public:
  explicit Places(const LibraryNames& names) : names_(names) {}

  std::vector<std::string> all() {
    if (std::string given = environment(names_.environment); !given.empty()) return {given};
    add("");
    for (const std::string& root :
         {environment("CUDA_PATH"), environment("CUDA_HOME"), std::string("/usr/local/cuda")}) {
      if (root.empty()) continue;
      add(root + "/lib64");
      add(root + "/lib");
    }
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
      if (std::string at = environment(name); !at.empty()) add_wheels(at);
    }
    std::stringstream path(environment("PATH"));
    for (std::string folder; std::getline(path, folder, ':');) {
      std::error_code error;
      std::filesystem::path python = std::filesystem::path(folder) / "python3";
      if (std::filesystem::exists(python, error)) {
        add_wheels(std::filesystem::path(folder).parent_path());
      }
    }
    return std::move(places_);
  }

 private:
  // The files in one folder; an empty folder stands for the loader's own path.
  void add(const std::string& folder) {
    for (const std::string& file : names_.files) {
      places_.push_back(folder.empty() ? file : folder + "/" + file);
    }
  }

  // The folders of NVIDIA's wheels below one Python environment.
  void add_wheels(const std::filesystem::path& environment) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(environment / "lib", error), end;
         !error && it != end; it.increment(error)) {
      if (it->path().filename().string().rfind("python3", 0) != 0) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const std::string& wheel : names_.wheels) {
          add((it->path() / packages / "nvidia" / wheel / "lib").string());
        }
      }
    }
  }

  const LibraryNames& names_;
  std::vector<std::string> places_;
};

}  // namespace

std::vector<std::string> places_of(const LibraryNames& names) { return Places(names).all(); }

}  // namespace tile::cuda
