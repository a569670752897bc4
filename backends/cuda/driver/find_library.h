// Where NVIDIA's libraries are that this backend opens at run time.
#pragma once

#include <string>
#include <vector>

namespace tile::cuda {

struct LibraryNames {
  const char* environment;          // the variable that names the library
  std::vector<std::string> files;   // the first that is there
  std::vector<std::string> wheels;  // folders of NVIDIA's wheels that hold it
};

// What the variable names alone, else in order: the loader's path, CUDA_PATH, CUDA_HOME,
// /usr/local/cuda, NVIDIA's wheels in the Python environment.
std::vector<std::string> places_of(const LibraryNames& names);

}  // namespace tile::cuda
