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
  std::vector<std::string> known;    // some values that it may have, where it may have others, too
  std::string initial;               // the value that counts where none is given
  bool positional = false, required = false, repeated = false;
};
// A command line that works as it stands, behind those before it on the same page.
struct ExampleInfo {
  std::string what, line;
};
struct CommandInfo {
  std::string name;
  std::string description;
  std::string footer;  // paragraphs behind the options
  std::vector<OptionInfo> options;
  std::vector<CommandInfo> commands;
  std::vector<ExampleInfo> examples;
};

// Values that an option of this name may have, in every command; empty: nothing is known of them.
const std::vector<std::string>& known_values(const std::string& option);

// The program's own table, `--help` included, with values that options of these names may have.
CommandInfo describe(const CLI::App& app);

// The examples of the pages of `tile`, by command; none for a command that has none.
std::vector<ExampleInfo> examples_of(const std::string& command);
// Adds them to the commands, as `of` has them by name.
void add_examples(CommandInfo& program, std::vector<ExampleInfo> (*of)(const std::string& command));

// A script that completes commands, options, choices and files. `shell` is bash, zsh or fish;
// throws Failure (stage run, "argument") for another one.
std::string completion(const CommandInfo& program, const std::string& shell);

// A manual page in roff (man(7)): of the whole program (an empty `command`), or of one of its
// commands. Throws Failure (stage run, "argument") for a command that it does not have.
std::string manual_page(const CommandInfo& program, const std::string& command,
                        const std::string& version);

// Into `folder`, of the program NAME: bash-completion/completions/NAME, zsh/site-functions/_NAME,
// fish/vendor_completions.d/NAME.fish and man/man1/NAME*.1, as in /usr/share. Throws Failure where
// a file cannot be written.
void write_shared_files(const CommandInfo& program, const std::string& version,
                        const std::string& folder);

}  // namespace tile::cli
