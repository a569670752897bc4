// Completions: bash's function is a table of cases; zsh's uses _arguments; fish has a line for each
// option.
#include "core/support/diagnostic.h"
#include "runtime/cli/table/command_info.h"

namespace tile::cli {
namespace {

std::string joined(const std::vector<std::string>& words, const char* separator = " ") {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : separator) + word;
  return out;
}

std::string option_names(const CommandInfo& command) {
  std::vector<std::string> names;
  for (const OptionInfo& option : command.options) {
    if (!option.positional) names.push_back(option.name);
  }
  return joined(names);
}

// What an argument may be that stands alone, or nothing: a file.
std::string positional_choices(const CommandInfo& command) {
  std::string out;
  for (const OptionInfo& option : command.options) {
    if (option.positional) out += (out.empty() ? "" : " ") + joined(option.choices);
  }
  return out;
}

std::vector<std::string> command_names(const CommandInfo& command) {
  std::vector<std::string> names;
  for (const CommandInfo& part : command.commands) names.push_back(part.name);
  return names;
}

// What is offered for a value; nothing: files.
const std::vector<std::string>& offered(const OptionInfo& option) {
  return option.choices.empty() ? option.known : option.choices;
}

std::string bash_values(const CommandInfo& command) {
  std::string cases;
  for (const OptionInfo& option : command.options) {
    if (option.positional || option.value.empty()) continue;
    std::string words = offered(option).empty()
                            ? "$(compgen -f -- \"$word\")"
                            : "$(compgen -W '" + joined(offered(option)) + "' -- \"$word\")";
    cases += "        " + option.name + ") COMPREPLY=(" + words + "); return ;;\n";
  }
  return cases;
}

// What sets `options` and `words` for a command. The commands in it are known by the word at
// `depth`.
std::string bash_command(const CommandInfo& command, int depth) {
  std::string out;
  if (std::string values = bash_values(command); !values.empty()) {
    out += "      case \"$before\" in\n" + values + "      esac\n";
  }
  out += "      options='" + option_names(command) + "'\n";
  out += "      words='" + positional_choices(command) + joined(command_names(command)) + "'\n";
  if (command.commands.empty()) return out;
  std::string place = std::to_string(depth);
  out += "      if [ \"$COMP_CWORD\" -gt " + place + " ]; then\n      words=''\n" +
         "      case \"${COMP_WORDS[" + place + "]}\" in\n";
  for (const CommandInfo& part : command.commands) {
    out += "    " + part.name + ")\n" + bash_command(part, depth + 1) + "      ;;\n";
  }
  return out + "      esac\n      fi\n";
}

std::string bash(const CommandInfo& program) {
  std::vector<std::string> names = command_names(program);
  std::string cases;
  for (const CommandInfo& command : program.commands) {
    cases += "    " + command.name + ")\n" + bash_command(command, 2) + "      ;;\n";
  }
  return "# bash completion for " + program.name + ", printed by `" + program.name +
         " completion bash`.\n_" + program.name + "() {\n" +
         "  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
         "  local options='' words=''\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         joined(names) + " " + option_names(program) +
         "' -- \"$word\"))\n    return\n  fi\n  case \"${COMP_WORDS[1]}\" in\n" + cases +
         "  esac\n"
         "  case \"$word\" in\n"
         "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
         "    *) if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "       else COMPREPLY=($(compgen -f -- \"$word\")); fi ;;\n"
         "  esac\n}\ncomplete -o filenames -F _" +
         program.name + " " + program.name + "\n";
}

// Inside of zsh's '…[description]…' and fish's '…'.
std::string escaped(const std::string& text, std::string_view special) {
  std::string out;
  for (char c : text) {
    if (special.find(c) != special.npos) out += '\\';
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c == '\n' ? ' ' : c;
    }
  }
  return out;
}

std::string zsh_option(const OptionInfo& option) {
  std::string action = offered(option).empty() ? "_files" : "(" + joined(offered(option)) + ")";
  std::string text = escaped(option.description, "[]:\\");
  if (option.positional) {
    return std::string("'") + (option.repeated ? "*" : "") + ":" + option.name + ":" + action + "'";
  }
  std::string value = option.value.empty() ? "" : ":" + option.value + ":" + action;
  return "'" + std::string(option.repeated ? "*" : "") + option.name + "[" + text + "]" + value +
         "'";
}

std::string zsh(const CommandInfo& program) {
  std::string list, cases;
  for (const CommandInfo& command : program.commands) {
    list += "    '" + command.name + ":" + escaped(command.description, ":\\") + "'\n";
    cases += "    " + command.name + ")\n      _arguments";
    for (const OptionInfo& option : command.options) cases += " \\\n        " + zsh_option(option);
    if (!command.commands.empty()) {
      cases += " \\\n        '1:command:(" + joined(command_names(command)) + ")'";
      cases += " \\\n        '*:file:_files'";
    }
    for (const CommandInfo& part : command.commands) {
      for (const OptionInfo& option : part.options) {
        if (!option.positional && option.name != "--help") {
          cases += " \\\n        " + zsh_option(option);
        }
      }
    }
    cases += " ;;\n";
  }
  return "#compdef " + program.name + "\n# zsh completion, printed by `" + program.name +
         " completion zsh`.\n_" + program.name + "() {\n  local -a commands\n  commands=(\n" +
         list +
         "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n"
         "    _arguments '--help[print help]' '--version[print the version]'\n    return\n  fi\n"
         "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n" +
         cases + "  esac\n}\n_" + program.name + " \"$@\"\n";
}

std::string fish_option(const std::string& program, const std::string& when,
                        const OptionInfo& option) {
  std::string line = "complete -c " + program + " -n '" + when + "'";
  std::string choices = escaped(joined(offered(option)), "\\");
  std::string text = " -d '" + escaped(option.description, "\\") + "'";
  if (option.positional) {
    return offered(option).empty() ? "" : line + " -f -a '" + choices + "'" + text + "\n";
  }
  line += " -l " + option.name.substr(option.name.find_first_not_of('-'));
  if (!option.value.empty()) line += offered(option).empty() ? " -r" : " -x -a '" + choices + "'";
  return line + text + "\n";
}

std::string fish_command(const std::string& program, const std::string& when,
                         const CommandInfo& command) {
  std::string out;
  for (const OptionInfo& option : command.options) out += fish_option(program, when, option);
  std::string names = joined(command_names(command));
  for (const CommandInfo& part : command.commands) {
    out += "complete -c " + program + " -n '" + when + "; and not __fish_seen_subcommand_from " +
           names + "' -f -a " + part.name + " -d '" + escaped(part.description, "\\") + "'\n";
    out += fish_command(program, when + "; and __fish_seen_subcommand_from " + part.name, part);
  }
  return out;
}

std::string fish(const CommandInfo& program) {
  std::string out = "# fish completion, printed by `" + program.name + " completion fish`.\n";
  for (const OptionInfo& option : program.options) {
    out += fish_option(program.name, "__fish_use_subcommand", option);
  }
  for (const CommandInfo& command : program.commands) {
    out += "complete -c " + program.name + " -n __fish_use_subcommand -f -a " + command.name +
           " -d '" + escaped(command.description, "\\") + "'\n";
    out += fish_command(program.name, "__fish_seen_subcommand_from " + command.name, command);
  }
  return out;
}

}  // namespace

std::string completion(const CommandInfo& program, const std::string& shell) {
  if (shell == "bash") return bash(program);
  if (shell == "zsh") return zsh(program);
  if (shell == "fish") return fish(program);
  fail(Stage::run, "argument", {}, "there are no completions for the shell \"" + shell + "\"",
       "bash, zsh or fish");
}

}  // namespace tile::cli
