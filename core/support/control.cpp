#include "core/support/control.h"

namespace tile {
namespace {

// Checkpoints between two questions: of 10 to 100 ns each where nodes are made.
constexpr int kBetween = 256;
constexpr Limits kDefaults;

}  // namespace

namespace control_detail {

thread_local constinit State state;

void ask() {
  state.left = kBetween;
  if (state.control != nullptr && state.control->is_over()) {
    throw state.control->reason(state.where);
  }
}

}  // namespace control_detail

using control_detail::state;

void checkpoint_at(Span where) {
  state.where = where;
  control_detail::ask();
}

Control* current_control() { return state.control; }
const Limits& limits() { return state.limits != nullptr ? *state.limits : kDefaults; }

void fail_limit(Stage stage, Span where, std::string message, const char* field) {
  fail(stage, "limit", where, std::move(message),
       std::string("an engine whose option ") + field + " is larger allows more");
}

Controlled::Controlled(Control* control, const Limits* limits) : before_(state) {
  if (control != nullptr) state.control = control;
  if (limits != nullptr) state.limits = limits;
  state.left = 0;
  state.where = {};
}
Controlled::~Controlled() { state = before_; }

}  // namespace tile
