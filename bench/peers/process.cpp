#include "bench/peers/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "core/support/diagnostic.h"

extern char** environ;

namespace tile::bench {
namespace {

[[noreturn]] void broken(const std::string& what) { fail(Stage::run, "peer", {}, what); }

struct Pipe {
  int read = -1, write = -1;
};
Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) broken(std::string("no pipe: ") + std::strerror(errno));
  return {ends[0], ends[1]};
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments) {
  // A child that ends early must not end this program when it is written to.
  std::signal(SIGPIPE, SIG_IGN);
  Pipe in = make_pipe(), out = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  int error = posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in.read);
  close(out.write);
  to_ = fdopen(in.write, "w");
  from_ = fdopen(out.read, "r");
  if (error != 0) broken(arguments[0] + " does not start: " + std::strerror(error));
}

Process::~Process() {
  std::fclose(to_);
  std::fclose(from_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

std::string Process::reap() {
  int status = 0;
  bool known = pid_ > 0 && waitpid(pid_, &status, 0) == pid_;
  pid_ = -1;
  if (!known) return "";
  if (WIFSIGNALED(status)) return std::string(" by a signal: ") + strsignal(WTERMSIG(status));
  return " with status " + std::to_string(WEXITSTATUS(status));
}

std::string Process::ask(const std::string& line) {
  std::fputs((line + "\n").c_str(), to_);
  std::fflush(to_);
  char* text = nullptr;
  size_t capacity = 0;
  ssize_t length = getline(&text, &capacity, from_);
  std::string answer(text == nullptr ? "" : text, length > 0 ? static_cast<size_t>(length) : 0);
  std::free(text);
  if (length <= 0) broken("its process ended" + reap());
  return answer;
}

}  // namespace tile::bench
