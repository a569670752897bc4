// Whether long work may go on, and what it may take. Whoever begins work on a thread may give the
// thread a Control; the work asks it at checkpoints, which are cheap enough for the places through
// which all long work comes: where nodes of the IR are made or copied, and in loops that may be
// long by themselves.
#pragma once

#include <cstdint>
#include <string>

#include "core/support/diagnostic.h"

namespace tile {

// Decides whether work is to end. Its functions may be called from any thread that does a part of
// the work.
class Control {
 public:
  virtual ~Control() = default;
  // Whether the work is to end now. It is asked every few microseconds.
  virtual bool is_over() noexcept = 0;
  // Seconds of processor time that another thread took for this thread's part of the work.
  virtual void spend(double seconds) noexcept { static_cast<void>(seconds); }
  // The Failure that says why, once it is.
  virtual Failure reason(Span where) const = 0;
};

// Bounds on what a text may ask for. What goes past one is a Failure of code "limit".
struct Limits {
  // Points that the reference interpreter visits in one run.
  int64_t points = int64_t{1} << 30;
  // Nodes of a program's bodies once they are bound.
  int64_t nodes = int64_t{1} << 20;
  // Statements of one kernel once its loops are written out.
  int64_t code = 20'000;
  // Brackets and blocks in each other, beneath what each language allows.
  int64_t nesting = 1'000;
};

namespace control_detail {
struct State {
  int left = 0;  // checkpoints until the control is asked again
  Control* control = nullptr;
  const Limits* limits = nullptr;
  Span where;
};
// So few words find room beside the process's own, where a checkpoint reaches them without a call.
extern thread_local constinit State state [[gnu::tls_model("initial-exec")]];
void ask();
}  // namespace control_detail

// One step of some work. Throws the reason of this thread's control where the work is over.
inline void checkpoint() {
  if (--control_detail::state.left < 0) control_detail::ask();
}
// So many of them.
inline void checkpoint_for(int steps) {
  if ((control_detail::state.left -= steps) < 0) control_detail::ask();
}
// One at the beginning of a part of the work that belongs to this place of the program's text.
void checkpoint_at(Span where);

// Of this thread now; null: nothing ends its work.
Control* current_control();
// Of this thread now; the defaults where nobody gave others.
const Limits& limits();
// `field`: what an engine's options call the limit.
[[noreturn]] void fail_limit(Stage stage, Span where, std::string message, const char* field);

// Gives this thread a control and limits for as long as it lives, then those of before.
class Controlled {
 public:
  // Null: those of now. What they point to must outlive this.
  explicit Controlled(Control* control, const Limits* limits = nullptr);
  ~Controlled();
  Controlled(const Controlled&) = delete;
  Controlled& operator=(const Controlled&) = delete;

 private:
  control_detail::State before_;
};

}  // namespace tile
