// One line on a terminal that changes in place; nothing where standard error is no terminal.
#pragma once

#include <string>

namespace tile::bench {

class Progress {
 public:
  Progress();
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& line);
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
};

// "12.3 us", "1.23 ms".
std::string time_text(double nanoseconds);

}  // namespace tile::bench
