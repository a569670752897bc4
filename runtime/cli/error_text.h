// What the program says of an error.
#pragma once

#include <exception>
#include <string>

#include "runtime/cli/session.h"

namespace tile::cli {

struct ErrorText {
  std::string message;  // the sentence alone
  std::string text;     // lines for standard error, in the form that the options ask for
};
ErrorText error_text(const std::exception_ptr& error, const Options& options);

}  // namespace tile::cli
