#include "runtime/transport/courier.h"

#include <chrono>
#include <system_error>
#include <utility>

namespace tile {
namespace {

// How long an exchange leaves the processor to the computation beside it before it looks again: a
// look takes about a hundredth of that.
constexpr std::chrono::microseconds kBetweenLooks(50);

}  // namespace

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
  std::unique_lock lock(mutex_);
  if (made_ == 0 && !under_way_ && !failure_) return make_here(lock);
  awaited_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return made_ > 0 || failure_; });
  awaited_ = false;
  if (made_ == 0) std::rethrow_exception(failure_);
  --made_;
}

// The other thread would have to wake first.
void Courier::make_here(std::unique_lock<std::mutex>& lock) {
  failure_ = make_first(
      lock, [this](const Job& job) { transport_.exchange(job.sent, job.received, job.what); });
  changed_.notify_all();
  if (failure_) std::rethrow_exception(failure_);
}

// Without the lock meanwhile; returns what is thrown.
template <class Make>
std::exception_ptr Courier::make_first(std::unique_lock<std::mutex>& lock, const Make& how) {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  under_way_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    how(job);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  under_way_ = false;
  return failure;
}

bool Courier::rest() {
  std::unique_lock lock(mutex_);
  if (awaited_ || stopped_) return false;
  changed_.wait_for(lock, kBetweenLooks, [&] { return awaited_ || stopped_; });
  return true;
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
    changed_.wait(
        lock, [&] { return leaves_ || (!jobs_.empty() && !under_way_ && !failure_ && !stopped_); });
    if (leaves_) return;
    if (std::exception_ptr failure = make_first(lock, [this](const Job& job) { make(job); })) {
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
  transport_.rest_ = [this] { return rest(); };
  try {
    transport_.exchange(job.sent, job.received, job.what);
  } catch (...) {
    transport_.rest_ = nullptr;
    throw;
  }
  transport_.rest_ = nullptr;
}

}  // namespace tile
