#include <filesystem>

#include "core/support/diagnostic.h"
#include "runtime/cli/files.h"
#include "runtime/cli/table/command_info.h"

namespace tile::cli {
namespace {

// Text as roff prints it: backslashes and hyphens as they are, no line that looks like a request.
std::string roff(const std::string& text) {
  std::string out;
  bool line_begins = true;
  for (char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    line_begins = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string heading(const std::string& page, const std::string& version) {
  return ".TH \"" + roff(page) + "\" 1 \"\" \"" + roff(version) + "\" \"User Commands\"\n";
}

std::string listed(const OptionInfo& option) {
  std::string out = ".TP\n\\fB" + roff(option.name) + "\\fR";
  if (!option.value.empty() && !option.positional) out += " \\fI" + roff(option.value) + "\\fR";
  out += "\n" + roff(option.description);
  bool more = !option.choices.empty() || !option.initial.empty();
  if (more) out += ".";
  if (!option.choices.empty()) {
    out += "\nOne of";
    for (const std::string& choice : option.choices) out += " " + roff(choice);
    out += ".";
  }
  if (!option.initial.empty()) out += "\nDefault: " + roff(option.initial) + ".";
  return out + "\n";
}

std::string options_of(const CommandInfo& command) {
  std::string arguments, options;
  for (const OptionInfo& option : command.options) {
    (option.positional ? arguments : options) += listed(option);
  }
  if (!arguments.empty()) arguments = ".SH ARGUMENTS\n" + arguments;
  return arguments + ".SH OPTIONS\n" + options;
}

std::string synopsis(const CommandInfo& command) {
  std::string out;
  for (const OptionInfo& option : command.options) {
    bool named = option.required && !option.positional;
    if (named) out += " \\fB" + roff(option.name) + "\\fR \\fI" + roff(option.value) + "\\fR";
  }
  out += " [\\fIoptions\\fR]";
  for (const OptionInfo& option : command.options) {
    if (!option.positional) continue;
    std::string name = "\\fI" + roff(option.name) + "\\fR" + (option.repeated ? " ..." : "");
    out += option.required ? " " + name : " [" + name + "]";
  }
  return out;
}

std::string examples_of(const CommandInfo& command) {
  std::string out = command.examples.empty() ? "" : ".SH EXAMPLES\n";
  for (const ExampleInfo& example : command.examples) {
    out +=
        ".PP\n" + roff(example.what) + "\n.PP\n.RS 4\n.nf\n" + roff(example.line) + "\n.fi\n.RE\n";
  }
  return out;
}

std::string footer_of(const CommandInfo& command) {
  if (command.footer.empty()) return "";
  return ".SH NOTES\n.nf\n" + roff(command.footer) + "\n.fi\n";
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  write_text(path.string(), text);
}

std::string page_of_program(const CommandInfo& program, const std::string& version) {
  std::string out = heading(program.name, version);
  out += ".SH NAME\n" + roff(program.name) + " \\- " + roff(program.description) + "\n";
  out += ".SH SYNOPSIS\n\\fB" + roff(program.name) + "\\fR \\fIcommand\\fR [\\fIoptions\\fR]\n";
  out += ".SH COMMANDS\n";
  for (const CommandInfo& command : program.commands) {
    out += ".TP\n\\fB" + roff(program.name + "-" + command.name) + "\\fR(1)\n" +
           roff(command.description) + "\n";
  }
  return out + options_of(program) + examples_of(program) + footer_of(program);
}

// The commands in a command, with their options.
std::string parts_of(const CommandInfo& command) {
  std::string out = command.commands.empty() ? "" : ".SH COMMANDS\n";
  for (const CommandInfo& part : command.commands) {
    out +=
        ".SS \"" + roff(command.name + " " + part.name) + "\"\n" + roff(part.description) + ".\n";
    for (const OptionInfo& option : part.options) {
      if (option.name != "--help") out += listed(option);
    }
  }
  return out;
}

std::string page_of_command(const CommandInfo& program, const CommandInfo& command,
                            const std::string& version) {
  std::string name = program.name + "-" + command.name;
  std::string out = heading(name, version);
  out += ".SH NAME\n" + roff(name) + " \\- " + roff(command.description) + "\n";
  out += ".SH SYNOPSIS\n\\fB" + roff(program.name + " " + command.name) + "\\fR" +
         (command.commands.empty() ? synopsis(command) : " \\fIcommand\\fR [\\fIoptions\\fR]") +
         "\n";
  out += parts_of(command) + options_of(command) + examples_of(command) + footer_of(command);
  return out + ".SH SEE ALSO\n\\fB" + roff(program.name) + "\\fR(1)\n";
}

}  // namespace

std::string manual_page(const CommandInfo& program, const std::string& command,
                        const std::string& version) {
  if (command.empty()) return page_of_program(program, version);
  for (const CommandInfo& info : program.commands) {
    if (info.name == command) return page_of_command(program, info, version);
  }
  fail(Stage::run, "argument", {}, program.name + " has no command " + command,
       program.name + " --help lists them");
}

void write_shared_files(const CommandInfo& program, const std::string& version,
                        const std::string& folder) {
  std::filesystem::path root(folder);
  const std::string& name = program.name;
  write(root / "bash-completion/completions" / name, completion(program, "bash"));
  write(root / "zsh/site-functions" / ("_" + name), completion(program, "zsh"));
  write(root / "fish/vendor_completions.d" / (name + ".fish"), completion(program, "fish"));
  write(root / "man/man1" / (name + ".1"), page_of_program(program, version));
  for (const CommandInfo& command : program.commands) {
    write(root / "man/man1" / (name + "-" + command.name + ".1"),
          page_of_command(program, command, version));
  }
}

}  // namespace tile::cli
