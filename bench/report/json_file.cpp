#include "bench/report/json_file.h"

#include <filesystem>
#include <fstream>
#include <iostream>

#include "core/support/diagnostic.h"

namespace tile::bench {

void replace_file(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text;
    return;
  }
  std::string partial = path + ".partial";
  std::ofstream file(partial);
  file << text;
  std::error_code error;
  if (file.flush()) std::filesystem::rename(partial, path, error);
  if (!file || error) fail(Stage::run, "file", {}, path + ": cannot be written");
}

}  // namespace tile::bench
