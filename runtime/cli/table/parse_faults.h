// What is wrong with a command line, told by the program's own table of commands.
#pragma once

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tile::cli {

// Throws Failure (run, "argument") for a command line that was refused with `error`. A command or
// an option that is not known is named, with the one that was surely meant.
[[noreturn]] void fail_for(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tile::cli
