// Puts passes into the trace, beside what another observer does.
#pragma once

#include "backends/trace.h"
#include "core/support/pass.h"

namespace tile {

// Of one thread's passes, which do not contain each other.
class PassTrace final : public PassObserver {
 public:
  // `next` may be null.
  explicit PassTrace(PassObserver* next) : next_(next) {}
  // What passes are to tell: this while there is a trace, else the other observer alone.
  PassObserver* observer() { return trace::is_on() ? this : next_; }

  void begins(const PassInfo& pass) override {
    begin_ns_ = trace::now_ns();
    if (next_ != nullptr) next_->begins(pass);
  }
  void ends(const PassInfo& pass, const PassText& text) override {
    if (next_ != nullptr) next_->ends(pass, text);
    trace::add("pass", pass.name, begin_ns_, trace::now_ns());
  }

 private:
  PassObserver* next_;
  int64_t begin_ns_ = 0;
};

}  // namespace tile
