// Shared libraries of peers, opened at run time: building needs none of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace tile::bench {

class Library {
 public:
  // The first of `names` that opens, looked for in the folders that the environment variable
  // TILE_BENCH_LIBRARIES names (separated by colons; .peers/lib of the source tree where it is not
  // set), then where the system's loader looks; null if there is none. What it needs itself is
  // taken from its own folder where the process does not have it yet.
  static std::shared_ptr<Library> open(const std::vector<std::string>& names);

  // Throws Failure (code "peer") if the library does not have it.
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(address(name));
  }
  // Null if neither the library nor one that it needs has it.
  void* find(const char* name) const;

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* address(const char* name) const;
  void* handle_;  // stays open: the libraries' threads outlive every owner
};

}  // namespace tile::bench
