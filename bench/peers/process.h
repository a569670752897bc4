// A child process that answers lines with lines.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace tile::bench {

class Process {
 public:
  // Looks `arguments[0]` up in PATH. Throws Failure (code "peer") if it does not start.
  explicit Process(const std::vector<std::string>& arguments);
  ~Process();  // closes its input and waits for its end
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Sends a line, gives the line that comes back. Throws Failure (code "peer"), which says how, if
  // the process ended.
  std::string ask(const std::string& line);
  bool ended() const { return pid_ < 0; }

 private:
  std::string reap();  // how it ended

  pid_t pid_ = -1;
  std::FILE *to_ = nullptr, *from_ = nullptr;
};

}  // namespace tile::bench
