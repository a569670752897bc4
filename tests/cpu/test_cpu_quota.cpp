// Quotas of control groups, in trees of files as Linux shows them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "backends/cpu/probe/cpu_quota.h"

namespace tile::cpu {
namespace {

namespace fs = std::filesystem;

class CpuQuota : public testing::Test {
 protected:
  CpuQuota() {
    std::string name = fs::temp_directory_path() / "tile-quota-XXXXXX";
    root_ = mkdtemp(name.data());
    write("proc/self/mountinfo",
          "22 27 0:20 / /proc rw - proc proc rw\n"
          "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
    write("proc/self/cgroup", "1:cpu:/other\n0::/outer/inner\n");
  }
  ~CpuQuota() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  void limit(const std::string& group, const std::string& text) {
    write("sys/fs/cgroup/" + group + "cpu.max", text);
  }
  int quota() { return processor_quota(root_); }
  fs::path root_;
};

TEST_F(CpuQuota, OfTheGroupRoundedUp) {
  EXPECT_EQ(quota(), 0);
  limit("outer/inner/", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  limit("outer/inner/", "200000 100000\n");
  EXPECT_EQ(quota(), 2);
  limit("outer/inner/", "150000 100000\n");
  EXPECT_EQ(quota(), 2);
  limit("outer/inner/", "10000 100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(CpuQuota, OfTheGroupsAround) {
  limit("outer/inner/", "400000 100000\n");
  limit("outer/", "300000 100000\n");
  EXPECT_EQ(quota(), 3);
  limit("", "100000 50000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CpuQuota, InANamespaceOfItsOwn) {
  write("proc/self/cgroup", "0::/\n");
  limit("", "250000 100000\n");
  EXPECT_EQ(quota(), 3);
}

TEST_F(CpuQuota, WhatMakesNoSenseIsNone) {
  for (const char* text : {"", "x y", "0 100000", "-1 100000", "100000 0", "100000", "nan 1",
                           "inf 100000", "1e300 1", "99999999999999999999999999 1"}) {
    limit("outer/inner/", text);
    EXPECT_EQ(quota(), 0) << text;
  }
  limit("outer/inner/", "200000 100000");
  write("proc/self/cgroup", "0::/../elsewhere\n");
  EXPECT_EQ(quota(), 0);
  write("proc/self/cgroup", "");
  EXPECT_EQ(quota(), 0);
  write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup cgroup rw\n");
  EXPECT_EQ(quota(), 0);
}

}  // namespace
}  // namespace tile::cpu
