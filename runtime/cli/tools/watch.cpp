#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>

#include "core/language/program_text.h"
#include "runtime/cli/error_text.h"
#include "runtime/cli/files.h"
#include "runtime/cli/filter_picture.h"
#include "runtime/cli/tensor_file.h"
#include "runtime/cli/tools/tools.h"

namespace tile::cli {
namespace {

// Looking at a file's time costs a microsecond; a person does not notice a tenth of a second.
constexpr auto kPause = std::chrono::milliseconds(100);

// What a save changes, whether an editor writes the file or puts another one in its place.
struct State {
  std::filesystem::file_time_type time;
  uintmax_t size = 0;
  bool there = false;
  friend bool operator==(const State&, const State&) = default;
};
State state_of(const std::string& file) {
  std::error_code error;
  State state;
  state.time = std::filesystem::last_write_time(file, error);
  if (error) return {};
  state.size = std::filesystem::file_size(file, error);
  state.there = !error;
  return error ? State{} : state;
}

// A filter's tensors in a picture's order of colours.
bool is_picture_tensor(const HostTensor& t) {
  size_t rank = t.shape.size();
  bool channels = rank == 2 || (rank == 3 && t.shape[2] >= 1 && t.shape[2] <= 4);
  return channels && t.count() > 0;
}
void add_picture(std::vector<PagePicture>& list, const std::string& name, const HostTensor& tensor,
                 const std::string& as) {
  if (!is_picture_tensor(tensor)) return;
  HostTensor picture = picture_of_output(tensor, as);
  list.push_back({name, png_of(picture, {.automatic = !is_integer(picture.type)}, name)});
}

std::string page_of(const Ran& ran, const std::string& file) {
  std::vector<PagePicture> before, after;
  for (size_t i = 0; i < ran.inputs.size(); ++i) {
    const std::string& name = input_name(*ran.program, i);
    // Inputs have the colours of the results: B, G, R, A.
    bool colors = name == "input_u8" || name == "input_u16";
    std::string as = colors ? "result" + name.substr(name.find('_')) : name;
    add_picture(before, name, ran.inputs[i], as);
  }
  for (size_t i = 0; i < ran.outputs.size(); ++i) {
    const std::string& name = output_name(*ran.program, i);
    add_picture(after, name, ran.outputs[i], name);
  }
  return picture_page(file, before, after, "");
}

// A page that cannot be written is told, unless it is the fault that was told already.
void show_fault(const std::string& fault, const std::string& page, const std::string& file) {
  try {
    write_text(page, picture_page(file, {}, {}, fault));
  } catch (const Failure& e) {
    if (fault.find(e.what()) == std::string::npos) std::cout << "tile: " << e.what() << std::endl;
  }
}

// False where it failed, which is told.
bool run_now(const RunArguments& arguments, const WatchArguments& watch, const Options& options) {
  ErrorText error;
  try {
    Ran ran = run_program(arguments, options);
    write_outputs(ran, arguments, options);
    if (!watch.html.empty()) write_text(watch.html, page_of(ran, arguments.file));
    for (size_t i = 0; i < ran.outputs.size(); ++i) {
      std::cout << output_name(*ran.program, i) << ": " << summary(ran.outputs[i]) << "\n";
    }
    std::cout << "ran in " << ran.ms.back() << " ms" << std::endl;
    return true;
  } catch (...) {  // also a fault of ours, or no memory: the next text may do
    error = error_text(std::current_exception(), options);
  }
  std::cout << error.text << std::flush;
  if (!watch.html.empty()) show_fault(error.text, watch.html, arguments.file);
  return false;
}

// What watching writes must not be what it watches.
void require_other(const std::string& page, const std::string& program) {
  std::error_code none;
  if (!std::filesystem::equivalent(page, program, none)) return;
  fail(Stage::run, "argument", {}, "--html " + page + " is the program itself",
       "name another file for the page");
}

}  // namespace

int command_watch(const RunArguments& run, const WatchArguments& watch, const Options& options) {
  read_text(run.file, kMaxTextBytes);  // throws where there is nothing to watch
  if (!watch.html.empty()) require_other(watch.html, run.file);
  for (int runs = 0;;) {
    State before = state_of(run.file);
    bool good = run_now(run, watch, options);
    if (++runs == watch.runs) return good ? 0 : 1;
    std::cout << "watching " << run.file << std::endl;
    State now = before;
    while (now == before || !now.there) {
      std::this_thread::sleep_for(kPause);
      now = state_of(run.file);
    }
    // An editor may still be writing: wait until nothing changes.
    for (State next = state_of(run.file);; next = state_of(run.file)) {
      if (next == now) break;
      now = next;
      std::this_thread::sleep_for(kPause);
    }
  }
}

}  // namespace tile::cli
