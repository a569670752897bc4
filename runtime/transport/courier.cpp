#include "runtime/transport/courier.h"

#include <atomic>
#include <system_error>
#include <utility>

namespace tile {

// The control of a job: that of whoever began it, until the courier is stopped.
class Courier::Stop final : public Control {
 public:
  Stop(Courier& courier, Control* control) : courier_(courier), control_(control) {}

  bool is_over() noexcept override {
    {
      std::lock_guard lock(courier_.mutex_);
      if (courier_.stopped_) return true;
    }
    return control_ != nullptr && control_->is_over();
  }
  Failure reason(Span where) const override {
    std::lock_guard lock(courier_.mutex_);
    if (!courier_.stopped_) return control_->reason(where);
    Diagnostic why;
    why.stage = Stage::run;
    why.code = "rank";
    why.span = where;
    why.message = *courier_.stopped_;
    return Failure(std::move(why));
  }

 private:
  Courier& courier_;
  Control* control_;
};

Courier::~Courier() {
  {
    std::lock_guard lock(mutex_);
    leaves_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// A process may have no further thread.
bool Courier::has_thread() {
  if (thread_.joinable()) return true;
  if (!transport_.serves_any_thread()) return false;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void Courier::begin(std::vector<SentPart> sent, std::vector<ReceivedPart> received,
                    std::string what) {
  has_thread();
  {
    std::lock_guard lock(mutex_);
    if (failure_ || stopped_) fail(Stage::run, "rank", {}, "the mesh failed before the " + what);
    jobs_.push_back({std::move(sent), std::move(received), std::move(what), current_control()});
  }
  changed_.notify_all();
}

void Courier::end() {
  if (!thread_.joinable()) {
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    transport_.exchange(job.sent, job.received, job.what);
    return;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return made_ > 0 || failure_; });
  if (made_ == 0) std::rethrow_exception(failure_);
  --made_;
}

void Courier::stop(const std::string& why) noexcept {
  std::unique_lock lock(mutex_);
  try {
    stopped_ = why;
  } catch (const std::bad_alloc&) {
    stopped_.emplace();
  }
  if (!under_way_) jobs_.clear();
  changed_.wait(lock, [&] { return !under_way_; });
  jobs_.clear();
}

void Courier::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return leaves_ || (!jobs_.empty() && !failure_ && !stopped_); });
    if (leaves_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    under_way_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      make(job);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    under_way_ = false;
    if (failure) {
      failure_ = failure;
    } else {
      ++made_;
    }
    changed_.notify_all();
  }
}

void Courier::make(const Job& job) {
  Stop control(*this, job.control);
  Controlled now(&control);
  transport_.exchange(job.sent, job.received, job.what);
}

}  // namespace tile
