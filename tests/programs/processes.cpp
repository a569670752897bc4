#include "tests/programs/processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace tile::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Worker {
  pid_t pid = -1;
  int pipe = -1;
  uint64_t next = 0, end = 0;  // the item that it does now, and one past its last
  std::string unread;
  Clock::time_point since;
};

void write_all(int to, const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    ssize_t n = write(to, text.data() + at, text.size() - at);
    if (n <= 0) _exit(1);
    at += static_cast<size_t>(n);
  }
}

std::string end_of(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

// Processes that each job is to start about: a new one for a GPU takes a second or two.
constexpr uint64_t kTurns = 3;

class Pool {
 public:
  Pool(const Processes& how, uint64_t first, uint64_t count,
       const std::function<ItemResult(uint64_t)>& work,
       const std::function<void(uint64_t, const std::string&, const std::string&)>& done)
      : how_(how), next_(first), end_(first + count), work_(work), done_(done) {}

  void run() {
    while (true) {
      while (std::ssize(workers_) < how_.jobs && next_ < end_) {
        uint64_t end = std::min(end_, next_ + items_of_a_process());
        start(next_, end);
        next_ = end;
      }
      if (workers_.empty()) return;
      wait();
    }
  }

 private:
  // Fewer where the whole is little for so many jobs, so that all have some to the end.
  uint64_t items_of_a_process() const {
    uint64_t turns = kTurns * static_cast<uint64_t>(std::max(how_.jobs, 1));
    return std::clamp<uint64_t>((end_ - next_) / turns, 1, how_.items_of_a_process);
  }

  void start(uint64_t first, uint64_t end) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    std::fflush(nullptr);
    pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("no process");
    if (pid == 0) {
      for (const Worker& w : workers_) close(w.pipe);
      close(ends[0]);
      for (uint64_t item = first; item < end; ++item) {
        ItemResult result = work_(item);
        write_all(ends[1], result.line + "\n");
        if (result.last) _exit(0);
      }
      _exit(0);
    }
    close(ends[1]);
    workers_.push_back({pid, ends[0], first, end, "", Clock::now()});
  }

  void wait() {
    std::vector<pollfd> files;
    for (const Worker& w : workers_) files.push_back({w.pipe, POLLIN, 0});
    poll(files.data(), files.size(), 1000);
    for (size_t i = files.size(); i-- > 0;) {
      if (files[i].revents != 0) {
        read_lines(i);
      } else if (Clock::now() - workers_[i].since > std::chrono::seconds(how_.seconds)) {
        kill(workers_[i].pid, SIGKILL);
        finish(i, "more than " + std::to_string(how_.seconds) + " s");
      }
    }
  }

  void read_lines(size_t i) {
    Worker& w = workers_[i];
    char block[65536];
    ssize_t n = read(w.pipe, block, sizeof block);
    if (n <= 0) return finish(i, "");
    w.unread.append(block, static_cast<size_t>(n));
    for (size_t at = w.unread.find('\n'); at != std::string::npos; at = w.unread.find('\n')) {
      done_(w.next++, w.unread.substr(0, at), "");
      w.unread.erase(0, at + 1);
      w.since = Clock::now();
    }
  }

  // The process has ended, or is being killed; what it left goes to another one.
  void finish(size_t i, const std::string& why) {
    Worker w = workers_[i];
    workers_.erase(workers_.begin() + static_cast<ptrdiff_t>(i));
    close(w.pipe);
    int status = 0;
    waitpid(w.pid, &status, 0);
    bool failed = !why.empty() || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (failed && w.next < w.end) done_(w.next++, "", why.empty() ? end_of(status) : why);
    if (w.next < w.end) start(w.next, w.end);
  }

  const Processes& how_;
  uint64_t next_, end_;
  const std::function<ItemResult(uint64_t)>& work_;
  const std::function<void(uint64_t, const std::string&, const std::string&)>& done_;
  std::vector<Worker> workers_;
};

}  // namespace

void in_processes(
    const Processes& how, uint64_t first, uint64_t count,
    const std::function<ItemResult(uint64_t)>& work,
    const std::function<void(uint64_t, const std::string&, const std::string&)>& done) {
  if (how.jobs == 0) {
    for (uint64_t item = first; item < first + count; ++item) done(item, work(item).line, "");
    return;
  }
  Pool(how, first, count, work, done).run();
}

}  // namespace tile::test
