// A test with a directory of its own and the lines that were logged.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/engine/cache/private_directory.h"

namespace tile::test {

class CacheDirectory : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "tile-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // The handle of a directory below this test's own, made where it is missing.
  std::shared_ptr<const PrivateDirectory> opened(const std::string& name) const {
    std::string why;
    auto handle = PrivateDirectory::open(directory_ + "/" + name, true, why);
    EXPECT_EQ(why, "");
    return handle;
  }

  // For an engine's log: keeps what is said about caches. Random programs hold what is warned
  // about.
  void note(const std::string& line) {
    if (line.find(" warning [") == std::string::npos) lines_.push_back(line);
  }

  std::string directory_;
  std::vector<std::string> lines_;
};

}  // namespace tile::test
