// What the stages of the compiler have in common: each is a table of passes in order, one row for
// each pass. Whoever runs a stage may watch its passes and leave optional ones out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tile {

// The stages, in the order in which a program goes through them.
enum class PassStage : uint8_t {
  front_end,  // text -> bound program
  tensor,     // bound program -> bound program in normal form
  fusion,     // bound program -> steps (kernels, sorts, scatters)
  lowering,   // kernel -> schedule -> loop nest
  nest,       // loop nest -> loop nest
  code,       // loop nest -> code
};
std::string_view to_string(PassStage stage);  // "front-end", "tensor", …

// A row of a stage's table.
struct PassInfo {
  PassStage stage = PassStage::tensor;
  std::string_view name;     // of no other pass of any stage
  bool optional = false;     // may be left out: programs compile and compute the same without it
  std::string_view summary;  // one line for people
};

// Prints what a pass has made: a program, steps, a schedule or a loop nest.
using PassText = std::function<std::string()>;

// Is told of passes while they run, on the thread that runs them. What it throws ends the
// compilation. A pass that throws does not end.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  virtual void begins(const PassInfo& pass) { static_cast<void>(pass); }
  // After the pass and the verification of what it made. `text` is good during the call; nothing is
  // printed unless it is called. Empty where there is no text to print.
  virtual void ends(const PassInfo& pass, const PassText& text) = 0;
};

// How a stage's passes are run.
struct PassOptions {
  std::vector<std::string> skip = {};  // names of optional passes; others are run all the same
  PassObserver* observer = nullptr;    // outlives the run
  // Verifies after every pass of a stage, also where a stage verifies what several passes made
  // together: for tests.
  bool verify_each = false;

  bool runs(const PassInfo& pass) const;
};

// Runs one pass, work() with its verification, if the options do not leave it out. text() prints
// what it made. Says whether the pass was run.
template <class Work, class Text>
bool run_pass(const PassInfo& pass, const PassOptions& options, Work&& work, const Text& text) {
  if (!options.runs(pass)) return false;
  if (options.observer == nullptr) {
    work();
    return true;
  }
  options.observer->begins(pass);
  work();
  options.observer->ends(pass, [&text] { return text(); });
  return true;
}

// The same of a pass that is always run, whose result is no text.
template <class Work>
void run_pass(const PassInfo& pass, PassObserver* observer, Work&& work) {
  if (observer != nullptr) observer->begins(pass);
  work();
  if (observer != nullptr) observer->ends(pass, PassText());
}

}  // namespace tile
