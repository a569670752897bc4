// Units of work that processes share: each is done once, whoever is killed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "runtime/engine/fleet/fleet_files.h"
#include "runtime/engine/fleet/work_share.h"
#include "tests/cache/cache_directory.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

class Share : public test::CacheDirectory {
 protected:
  // Does all units, appending a line for each; a worker with `killed` kills itself in the midst of
  // its third.
  void work(const std::string& name, int units, bool killed) {
    std::string why;
    WorkShare share(PrivateDirectory::open(directory_ + "/share", false, why), name);
    int begun = 0;
    for (int rest = units; rest > 0;) {
      WorkShare::State state = share.state();
      rest = units - static_cast<int>(state.done.size());
      for (int i = 0; i < units; ++i) {
        std::string unit = "u" + std::to_string(i);
        if (!share.claim(unit, state)) continue;
        if (killed && ++begun == 3) kill(getpid(), SIGKILL);
        share.directory().append(name + ".log", unit + "\n", why);
        share.finish(unit);
        break;
      }
    }
  }
  pid_t started(const std::string& name, int units, bool killed = false) {
    pid_t child = fork();
    if (child == 0) {
      work(name, units, killed);
      _exit(0);
    }
    return child;
  }
  std::map<std::string, int> done() const {
    std::map<std::string, int> times;
    for (const auto& entry : fs::directory_iterator(directory_ + "/share")) {
      if (entry.path().extension() != ".log") continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) ++times[line];
    }
    return times;
  }
  void expect_all_once(int units) const {
    std::map<std::string, int> times = done();
    EXPECT_EQ(times.size(), static_cast<size_t>(units));
    for (const auto& [unit, count] : times) EXPECT_EQ(count, 1) << unit;
  }
};

TEST_F(Share, EachUnitIsDoneOnce) {
  opened("share");
  std::vector<pid_t> workers;
  for (int i = 0; i < 4; ++i) workers.push_back(started("w" + std::to_string(i), 60));
  for (pid_t worker : workers) {
    int status = 0;
    waitpid(worker, &status, 0);
    EXPECT_EQ(status, 0);
  }
  expect_all_once(60);
}

// Those who are killed are known to be dead at once, on their machine.
TEST_F(Share, WhoIsKilledIsReplaced) {
  opened("share");
  std::vector<pid_t> workers;
  for (int i = 0; i < 6; ++i) workers.push_back(started("w" + std::to_string(i), 60, i < 4));
  for (pid_t worker : workers) waitpid(worker, nullptr, 0);
  expect_all_once(60);
}

TEST_F(Share, AClaimIsGoodUntilItIsGivenBack) {
  WorkShare a(opened("share"), "a"), b(opened("share"), "b");
  ASSERT_TRUE(a.claim("u", a.state()));
  EXPECT_FALSE(b.claim("u", b.state()));
  EXPECT_FALSE(a.claim("u", {})) << "nor without looking";
  a.give_back("u");
  EXPECT_TRUE(b.claim("u", b.state()));
  EXPECT_TRUE(b.finish("u"));
  EXPECT_FALSE(a.claim("u", a.state()));
  EXPECT_FALSE(a.claim("u", {})) << "nor without looking";
  EXPECT_EQ(a.state().done, std::set<std::string>{"u"});
}

TEST_F(Share, TheEndOfAWorkerGivesBack) {
  {
    WorkShare a(opened("share"), "a");
    ASSERT_TRUE(a.claim("u", a.state()));
  }
  WorkShare b(opened("share"), "b");
  EXPECT_TRUE(b.claim("u", b.state()));
}

// Of another machine nobody knows but by the time of its file.
TEST_F(Share, ClaimsOfOtherMachinesAgeUnlessTheyAreKeptFresh) {
  WorkShare a(opened("share"), "a", 1), b(opened("share"), "b", 1);
  ASSERT_TRUE(a.claim("kept", a.state()));
  for (const char* text : {"{\"place\":\"elsewhere\",\"pid\":1}", "noise", ""}) {
    std::string unit = "u" + std::to_string(strlen(text)), file = unit + ".claim.0", why;
    ASSERT_TRUE(a.directory().create(file, text, why)) << why;
    EXPECT_FALSE(b.claim(unit, b.state())) << text;
    const timespec old[] = {{1000, 0}, {1000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (directory_ + "/share/" + file).c_str(), old, 0), 0);
    EXPECT_TRUE(b.claim(unit, b.state())) << text;
    EXPECT_FALSE(a.claim(unit, a.state())) << text;
    b.finish(unit);
  }
  const timespec old[] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (directory_ + "/share/kept.claim.0").c_str(), old, 0), 0);
  usleep(600000);  // two beats of its heart
  EXPECT_FALSE(b.claim("kept", b.state()));
}

TEST_F(Share, PlansAndTimesComeBack) {
  FleetPlan plan{"processor", "kernel\n", 4, {"a", "b\n", "c", "d", "e"}};
  EXPECT_EQ(plan.chunks(), 2U);
  std::string text = to_text(plan);
  std::optional<FleetPlan> read = parse_plan(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->schedules, plan.schedules);
  EXPECT_EQ(read->kernel, plan.kernel);
  for (size_t at = 0; at + 2 < text.size(); ++at) {
    EXPECT_FALSE(parse_plan(text.substr(0, at))) << at;
  }
  for (const char* none : {"[]", "{}", "{\"tile\":\"plan 1\"}", "{\"tile\":7}"}) {
    EXPECT_FALSE(parse_plan(none)) << none;
    EXPECT_FALSE(parse_time(none)) << none;
  }
  EXPECT_EQ(parse_time(to_line(FleetTime{"k", "s", 5}))->ns, 5);
  EXPECT_TRUE(std::isinf(parse_time(to_line(FleetTime{"k", "s"}))->ns));
}

// Half a line is read once it is whole, others' lines once.
TEST_F(Share, TimesAreReadAsTheyCome) {
  auto folder = opened("share");
  FleetTimes times(*folder);
  std::string line = to_line(FleetTime{"k", "s", 5}), why;
  ASSERT_TRUE(folder->append("w.times", line + line.substr(0, 9), why));
  times.refresh();
  EXPECT_EQ(times.of("k").size(), 1U);
  std::string other = to_line(FleetTime{"k", "t", 6});
  std::ofstream(directory_ + "/share/w.times", std::ios::trunc) << line << other;
  times.refresh();
  EXPECT_EQ(times.of("k").at("t"), 6);
}

TEST_F(Share, FilesAreMadeOnceAndLockedOnce) {
  auto folder = opened("share");
  std::string why;
  EXPECT_TRUE(folder->create("a", "text", why));
  EXPECT_FALSE(folder->create("a", "other", why));
  EXPECT_EQ(why, "");
  EXPECT_EQ(folder->read("a", 100, why)->size(), 4U);
  auto lock = folder->try_lock("l", why);
  ASSERT_TRUE(lock);
  EXPECT_FALSE(folder->try_lock("l", why));
  EXPECT_EQ(why, "");
  lock.reset();
  EXPECT_TRUE(folder->try_lock("l", why));
}

}  // namespace
}  // namespace tile
