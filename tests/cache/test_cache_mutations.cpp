// Whatever becomes of the cache directory and its files is a miss and one log line: never an error,
// a wait, or another kernel's code.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/engine/cache/disk_cache.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/records/tuning_records.h"
#include "tests/cache/cache_directory.h"
#include "tests/executors/run_backends.h"
#include "tests/random/random_source.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Mutations : public test::CacheDirectory {
 protected:
  std::shared_ptr<Engine> engine() {
    EngineOptions options;
    options.backend = "cpu";
    options.cache_dir = directory_ + "/cache";
    options.cache_mode = "rw";
    options.log = [this](LogLevel, const std::string& line) { note(line); };
    return Engine::create(std::move(options));
  }
  std::vector<std::byte> result() {
    return test::run_code(*test::compiled(engine(), drawn_), drawn_.inputs).at(0).bytes;
  }
  DiskCache cache() {
    CacheOptions options;
    options.directory = directory_ + "/cache";
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    return DiskCache(std::move(options));
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> list;
    for (const auto& entry : fs::directory_iterator(directory_ + "/cache")) {
      list.push_back(entry.path());
    }
    std::sort(list.begin(), list.end());
    return list;
  }
  void expect_a_miss_and_a_line(const std::string& what) {
    lines_.clear();
    EXPECT_EQ(cache().read("key"), std::nullopt) << what;
    EXPECT_EQ(lines_.size(), 1U) << what;
  }

  test::RandomCase drawn_ = test::random_case(7);
};

// Flipped bits, cuts, additions and exchanges, of kernels and records; the checksum makes each a
// miss.
TEST_F(Mutations, RandomDamageIsAMiss) {
  const std::vector<std::byte> expected = result();
  const std::vector<fs::path> all = files();
  ASSERT_GE(all.size(), 2U);
  std::vector<std::string> good;
  for (const fs::path& path : all) good.push_back(contents(path));
  test::RandomSource random(20);
  for (int round = 0; round < 60; ++round) {
    auto at = static_cast<size_t>(random.in(0, static_cast<int64_t>(all.size()) - 1));
    std::string bytes = good[at];
    auto place = [&] {
      return static_cast<size_t>(random.in(0, static_cast<int64_t>(bytes.size()) - 1));
    };
    switch (round % 4) {
      case 0:
        for (int64_t i = random.in(0, 7); i >= 0; --i)
          bytes[place()] ^= static_cast<char>(1 << random.in(0, 7));
        break;
      case 1:
        bytes.resize(place());
        break;
      case 2:
        bytes += std::string(1 + place(), '\7');
        break;
      default:
        bytes = good[(at + 1) % good.size()];
    }
    if (bytes == good[at]) continue;
    std::ofstream(all[at], std::ios::binary | std::ios::trunc) << bytes;
    lines_.clear();
    EXPECT_EQ(result(), expected) << round;
    EXPECT_EQ(lines_.size(), 1U) << round;
    EXPECT_EQ(contents(all[at]), good[at]) << "the entry is written again " << round;
  }
}

TEST_F(Mutations, OtherThanFilesAreMisses) {
  cache().write("key", {});
  const fs::path entry = files().at(0), kept = directory_ + "/kept";
  fs::rename(entry, kept);
  lines_.clear();
  EXPECT_EQ(cache().read("key"), std::nullopt);
  EXPECT_TRUE(lines_.empty()) << "no entry is no fault";
  fs::create_symlink(kept, entry);
  expect_a_miss_and_a_line("a link to an entry");
  fs::remove(entry);
  ASSERT_EQ(mkfifo(entry.c_str(), 0600), 0);
  expect_a_miss_and_a_line("a FIFO");
  fs::remove(entry);
  fs::create_directory(entry);
  expect_a_miss_and_a_line("a directory");
  cache().write("key", {});
  EXPECT_TRUE(cache().read("key")) << "an empty directory gives way";
  chmod(entry.c_str(), 0666);
  expect_a_miss_and_a_line("a file that others can write");
  chmod(entry.c_str(), 0600);
  EXPECT_TRUE(cache().read("key"));
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(entry.c_str(), 65534, 65534), 0);
  expect_a_miss_and_a_line("a file of another user");
}

// Exchanged after it was opened, by whoever may write its parent: the engine stays with the one it
// has seen.
TEST_F(Mutations, TheDirectoryIsItsHandle) {
  DiskCache mine = cache();
  mine.write("key", {});
  fs::rename(directory_ + "/cache", directory_ + "/moved");
  fs::create_directory(directory_ + "/cache");
  std::vector<std::byte> other(3);
  for (const auto& entry : fs::directory_iterator(directory_ + "/moved")) {
    std::vector<std::byte> forged = cache_entry("key", other);
    std::ofstream(directory_ + "/cache/" + entry.path().filename().string(), std::ios::binary)
        .write(reinterpret_cast<const char*>(forged.data()),
               static_cast<std::streamsize>(forged.size()));
  }
  EXPECT_EQ(mine.read("key"), std::vector<std::byte>());
  mine.write("later", {});
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_ + "/moved"), {}), 2);
  // Opened to others afterwards, it is used no longer.
  chmod((directory_ + "/moved").c_str(), 0777);
  lines_.clear();
  EXPECT_EQ(mine.read("key"), std::nullopt);
  EXPECT_EQ(lines_.size(), 1U);
}

TEST_F(Mutations, LinksAndFilesAreNoDirectories) {
  fs::create_directory(directory_ + "/real");
  chmod((directory_ + "/real").c_str(), 0700);
  fs::create_directory_symlink(directory_ + "/real", directory_ + "/link");
  std::ofstream(directory_ + "/file") << "text";
  ASSERT_EQ(mkfifo((directory_ + "/fifo").c_str(), 0600), 0);
  std::string why;
  for (const char* name : {"/link", "/link/", "/link//", "/file", "/fifo"}) {
    EXPECT_EQ(PrivateDirectory::open(directory_ + name, true, why), nullptr) << name;
    EXPECT_NE(why.find("is not a directory"), std::string::npos) << why;
  }
  EXPECT_NE(PrivateDirectory::open(directory_ + "/real/", true, why), nullptr);
  chmod((directory_ + "/real").c_str(), 0755);
  EXPECT_EQ(PrivateDirectory::open(directory_ + "/real", true, why), nullptr);
  EXPECT_NE(why.find("755"), std::string::npos) << why;
  EXPECT_EQ(PrivateDirectory::open(directory_ + "/none", false, why), nullptr);
}

TEST_F(Mutations, LeftoversOfKilledWritersGo) {
  DiskCache mine = cache();
  mine.write("key", {});
  std::string entry = files().at(0).string();
  std::string old = entry + ".99.0.1.new", fresh = entry + ".99.1.1.new";
  for (const std::string& name : {old, fresh}) std::ofstream(name) << "part";
  const timespec before[] = {{1577836800, 0}, {1577836800, 0}};  // 2020
  ASSERT_EQ(utimensat(AT_FDCWD, old.c_str(), before, 0), 0);
  EXPECT_EQ(summarize_cache(*opened("cache")).leftovers, 2U);
  mine.tidy();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh)) << "its writer may live";
  EXPECT_TRUE(mine.read("key"));
  for (int i = 0; i < 1000 && fs::exists(entry); ++i) {
    std::ofstream(old) << "part";
    utimensat(AT_FDCWD, old.c_str(), before, 0);
    mine.write("other " + std::to_string(i), {});
    if (!fs::exists(old)) return;
  }
  FAIL() << "writers do not tidy";
}

TEST_F(Mutations, TuningRecordsInAPipeAreNone) {
  auto folder = opened("cache");
  std::vector<std::string> lines;
  auto records = [&] {
    return TuningRecords(folder, true, "here", [&](const std::string& l) { lines.push_back(l); });
  };
  records().add({"kernel", "schedule", 7});
  fs::path file = files().at(0);
  EXPECT_EQ(records().find("kernel"), "schedule");
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(records().find("kernel"), std::nullopt);
  EXPECT_EQ(lines.size(), 1U);
  records().add({"kernel", "schedule", 7});
  EXPECT_EQ(lines.size(), 3U) << "neither read nor written";
}

}  // namespace
}  // namespace tile
