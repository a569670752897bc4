// Plug-ins of transports: which files are opened, and what their answers become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/support/diagnostic.h"
#include "runtime/transport/plugin_transport.h"

namespace tile::test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Plugins : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tile-plugins-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    file_ = folder_ / "solo.so";
    fs::copy_file(TILE_SOLO_TRANSPORT, file_);
    chmod(file_.c_str(), 0755);
  }
  void TearDown() override {
    unsetenv("TILE_SOLO");
    unsetenv("TILE_MPI");
    fs::remove_all(folder_);
  }

  // The code and the message of what `work` throws.
  template <class Work>
  static std::string failure_of(Work&& work) {
    try {
      work();
    } catch (const Failure& failure) {
      return failure.diagnostic().code + ": " + failure.diagnostic().message;
    }
    return "";
  }
  std::string opening() const {
    return failure_of([&] { open_plugin({file_.string()}); });
  }
  std::string exchanging(const char* what) const {
    setenv("TILE_SOLO", what, 1);
    auto end = open_plugin({file_.string(), 0.5});
    return failure_of([&] { end->exchange({}, {}, "halo of A, a.tile:2"); });
  }

  fs::path folder_, file_;
};

TEST_F(Plugins, ATableIsOpenedAndUsed) {
  auto end = open_plugin({file_.string()});
  EXPECT_EQ(end->ranks(), 1U);
  end->exchange({}, {}, "test");
}

TEST_F(Plugins, FilesThatOthersMayWriteAreNotOpened) {
  chmod(file_.c_str(), 0775);
  EXPECT_THAT(opening(), HasSubstr("transport: the transport " + file_.string()));
  EXPECT_THAT(opening(), HasSubstr("others may write it"));
  chmod(file_.c_str(), 0755);
  chmod(folder_.c_str(), 0777);
  EXPECT_THAT(opening(), HasSubstr("others may write it"));
  chmod(folder_.c_str(), 01777);  // nobody else may replace a file there
  EXPECT_EQ(opening(), "");
}

TEST_F(Plugins, OtherFilesAreRefused) {
  fs::remove(file_);
  EXPECT_THAT(opening(), HasSubstr("No such file"));
  fs::create_directory(file_);
  EXPECT_THAT(opening(), HasSubstr("not a regular file"));
  fs::remove(file_);
  std::ofstream(file_) << "text";
  EXPECT_THAT(opening(), HasSubstr("transport: "));
}

TEST_F(Plugins, APlugInSaysWhyItCannotBeUsed) {
  setenv("TILE_SOLO", "refuse", 1);
  EXPECT_THAT(opening(), HasSubstr("cannot be used: it refuses"));
}

TEST_F(Plugins, AnswersBecomeErrors) {
  EXPECT_EQ(exchanging("silent"),
            "rank: rank 1 of 2 was silent for 0.5 s in the halo of A, a.tile:2");
  EXPECT_EQ(exchanging("notice"),
            "rank: rank 1 of 2 failed before the halo of A, a.tile:2: a.npy: cut short");
  EXPECT_THAT(exchanging("broken"), HasSubstr("rank: the transport failed in the halo of A"));
}

TEST_F(Plugins, AMeshThatFailedStaysSo) {
  setenv("TILE_SOLO", "silent", 1);
  auto end = open_plugin({file_.string(), 0.5});
  for (const char* expected : {"was silent", "the mesh failed before the second"}) {
    EXPECT_THAT(failure_of([&] { end->exchange({}, {}, "second"); }), HasSubstr(expected));
  }
}

TEST_F(Plugins, NamesStandForPaths) {
  EXPECT_EQ(plugin_path("./a.so"), "./a.so");
  EXPECT_THAT(failure_of([] { plugin_path("mpi"); }), HasSubstr("argument: TILE_MPI does not say"));
  setenv("TILE_MPI", "/a/b.so", 1);
  EXPECT_EQ(plugin_path("mpi"), "/a/b.so");
  EXPECT_THAT(failure_of([] { plugin_path("nccl"); }),
              HasSubstr("no transport is called \"nccl\""));
}

}  // namespace
}  // namespace tile::test
