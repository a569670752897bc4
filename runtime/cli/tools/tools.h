// The commands for those who write programs: fmt, new, watch, doctor. Each returns the process's
// exit status and throws Failure or Located.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/run.h"
#include "runtime/cli/session.h"

namespace tile::cli {

struct FormatArguments {
  std::vector<std::string> files;  // "-": standard input to standard output, in `language`
  std::string language;            // empty: by the suffixes
  bool check = false;              // only names the files that are not formatted; status 1
};
int command_fmt(const FormatArguments& arguments);

// Writes a starting program to `file` (empty: start.LANGUAGE) and says how it is run. A file that
// exists is left alone, which is an error.
int command_new(const std::string& language, std::string file);

struct WatchArguments {
  std::string html;  // a page with each picture before and after; empty: none
  int runs = 0;      // ends after so many; 0: never
};
// Runs a program now and whenever its file has changed. Its errors are told and do not end it. With
// `runs` the status is 1 where the last run failed.
int command_watch(const RunArguments& run, const WatchArguments& watch, const Options& options);

// Looks at what the product depends on: processor, memory, threads, cache, GPU, environment; and
// computes something on each backend. Status 1 where something is broken.
int command_doctor(bool json);

// A page with pictures in it, for a browser, which needs no other file and loads itself anew.
struct PagePicture {
  std::string name;
  std::string png;  // the bytes of the file
};
std::string picture_page(const std::string& title, const std::vector<PagePicture>& before,
                         const std::vector<PagePicture>& after, const std::string& note);

}  // namespace tile::cli
