// `tile records`: lists, moves and checks what tuning left.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/session.h"

namespace tile::cli {

struct RecordsArguments {
  std::string action;              // list, export, import, merge or verify
  std::string to;                  // of export and merge: the file, "-" for standard output
  std::vector<std::string> files;  // of list and verify: none for the store
  bool json = false;
  bool all = false;   // every schedule on record, not the best of each kernel alone
  bool here = false;  // of this engine's processor alone
  bool race = true;   // import and merge race near ties again, where this is their processor
};
int command_records(const RecordsArguments& arguments, const Options& options);

}  // namespace tile::cli
