// The subcommands of `tile`. Each returns the process's exit status and throws Failure or Located.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/session.h"

namespace tile::cli {

int command_check(const std::string& file, const std::vector<std::string>& shapes,
                  const Options& options);

struct RunArguments {
  std::string file;
  std::vector<std::string> in, param, out;
  int repeat = 1;
  std::string gradient_of;  // --grad O:I,K adds the gradients of O to the outputs
  bool profile = false;
};
int command_run(const RunArguments& arguments, const Options& options);

int command_emit(const std::string& file, const std::vector<std::string>& shapes,
                 const std::string& stage, const Options& options);
int command_explain(const std::string& file, const std::vector<std::string>& shapes,
                    const Options& options);
int command_grad(const std::string& file, const std::string& of, const std::string& wrt,
                 const Options& options);
int command_cache(const std::string& action);
int command_devices(const Options& options);

}  // namespace tile::cli
