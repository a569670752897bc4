// The table of commands as data: completions for shells and manual pages are made of it, so that
// they know every command and option that the program has.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tile::cli {

struct OptionInfo {
  std::string name;  // "--shape"; of a positional argument "file"
  std::string description;
  std::string value;                 // "TEXT", "INT"; empty for a flag
  std::vector<std::string> choices;  // of the value; empty: any
  std::string initial;               // the value that counts where none is given
  bool positional = false, required = false, repeated = false;
};
struct CommandInfo {
  std::string name;
  std::string description;
  std::string footer;  // paragraphs behind the options
  std::vector<OptionInfo> options;
  std::vector<CommandInfo> commands;
};

// The program's own table, `--help` included.
CommandInfo describe(const CLI::App& app);

// A script that completes commands, options, choices and files. `shell` is bash, zsh or fish;
// throws Failure (stage run, "argument") for another one.
std::string completion(const CommandInfo& program, const std::string& shell);

// A manual page in roff (man(7)): of the whole program (an empty `command`), or of one of its
// commands. Throws Failure (stage run, "argument") for a command that it does not have.
std::string manual_page(const CommandInfo& program, const std::string& command,
                        const std::string& version);

// Into `folder`: bash-completion/completions/tile, zsh/site-functions/_tile,
// fish/vendor_completions.d/tile.fish and man/man1/*.1, as in /usr/share. Throws Failure where a
// file cannot be written.
void write_shared_files(const CommandInfo& program, const std::string& version,
                        const std::string& folder);

}  // namespace tile::cli
