#include "backends/cpu/launch/code.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <map>

#include "backends/cpu/launch/aligned_memory.h"
#include "backends/cpu/launch/scratch.h"
#include "backends/cpu/launch/spin.h"
#include "backends/cpu/launch/work_stealing_range.h"
#include "backends/cpu/launch/worker_team.h"
#include "backends/trace.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

// What code that asks is given: the control's answer.
struct Answer : Question {
  explicit Answer(Control* of) : Question{ask}, control(of) {}
  static bool ask(const Question* question) {
    return static_cast<const Answer*>(question)->control->is_over();
  }
  Control* control;
};

}  // namespace

LaunchPlan launch_plan(const nest::Nest& nest, const Plan& plan) {
  LaunchPlan result;
  for (size_t i = 0; i < nest.argument_count(); ++i)
    result.written.push_back(nest.buffers[i].written);
  result.workspace_bytes = static_cast<size_t>(plan.workspace_bytes);
  result.scratch_bytes = static_cast<size_t>(plan.scratch_bytes);
  result.asks = !plan.long_loops.empty();
  // Nests that differ in names alone have one object.
  std::map<std::string, Expr> renamed;
  for (const nest::Parameter& p : nest.parameters) {
    if (p.from.valid()) continue;
    result.parameters.push_back("p" + std::to_string(result.parameters.size()));
    renamed[p.name] = Expr::variable(result.parameters.back());
  }
  for (const Entry& e : plan.entries) {
    LaunchPlan::Entry entry;
    entry.parallel = e.parallel;
    entry.chained = e.chained;
    if (entry.parallel) {
      const auto& loop = std::get<nest::For>(nest.body[e.first].what);
      entry.extent = substitute(loop.extent, renamed);
      entry.grain = std::max<int64_t>(1, loop.grain);
    }
    result.entries.push_back(std::move(entry));
  }
  return result;
}

std::vector<char> packed(const LaunchPlan& plan, std::span<const char> code) {
  std::string head = "arguments ";
  for (bool written : plan.written) head += written ? 'w' : 'r';
  head += "\nparameters " + std::to_string(plan.parameters.size()) + " workspace " +
          std::to_string(plan.workspace_bytes) + " scratch " + std::to_string(plan.scratch_bytes) +
          (plan.asks ? " asks" : "") + "\n";
  for (const LaunchPlan::Entry& e : plan.entries) {
    const char* kind = e.chained ? "chained " : "parallel ";
    head +=
        e.parallel ? kind + std::to_string(e.grain) + " " + to_string(e.extent) + "\n" : "serial\n";
  }
  head += "code\n";
  std::vector<char> object(head.begin(), head.end());
  object.insert(object.end(), code.begin(), code.end());
  return object;
}

std::optional<Unpacked> unpacked(std::span<const char> object) {
  auto line = [&]() -> std::optional<std::string> {
    auto end = std::find(object.begin(), object.end(), '\n');
    if (end == object.end()) return std::nullopt;
    std::string text(object.begin(), end);
    object = object.subspan(text.size() + 1);
    return text;
  };
  Unpacked result;
  LaunchPlan& plan = result.plan;
  std::optional<std::string> text = line();
  constexpr std::string_view kArguments = "arguments ";
  if (!text || !text->starts_with(kArguments)) return std::nullopt;
  for (char c : text->substr(kArguments.size())) {
    if (c != 'r' && c != 'w') return std::nullopt;
    plan.written.push_back(c == 'w');
  }
  text = line();
  size_t parameters = 0;
  constexpr const char* kHead = "parameters %zu workspace %zu scratch %zu";
  if (!text || std::sscanf(text->c_str(), kHead, &parameters, &plan.workspace_bytes,
                           &plan.scratch_bytes) != 3) {
    return std::nullopt;
  }
  plan.asks = text->ends_with(" asks");
  for (size_t i = 0; i < parameters && i < object.size(); ++i)
    plan.parameters.push_back("p" + std::to_string(i));
  for (text = line(); text && *text != "code"; text = line()) {
    LaunchPlan::Entry entry;
    int at = 0;
    auto is = [&](const char* format) {
      return std::sscanf(text->c_str(), format, &entry.grain, &at) == 1;
    };
    entry.chained = is("chained %" SCNd64 " %n");
    entry.parallel = entry.chained || is("parallel %" SCNd64 " %n");
    if (!entry.parallel && *text != "serial") return std::nullopt;
    try {
      if (entry.parallel) entry.extent = parse_expr(text->substr(static_cast<size_t>(at)));
    } catch (const Failure&) {
      return std::nullopt;
    }
    plan.entries.push_back(std::move(entry));
  }
  if (!text) return std::nullopt;
  result.code = object;
  return result;
}

CpuCode::CpuCode(std::vector<char> object, const Target& target, Link link)
    : object_(std::move(object)), threads_(std::max(1, target.threads)) {
  std::optional<Unpacked> parts = unpacked(object_);
  if (!parts) fail(Stage::compile, "backend", {}, "an object that is none of this backend's");
  plan_ = std::move(parts->plan);
  takes_ = {plan_.written, plan_.parameters.size()};
  linked_ = link(parts->code);
  if (!linked_) fail(Stage::compile, "backend", {}, "an object that does not link");
  for (size_t i = 0; i < plan_.entries.size(); ++i) {
    const LaunchPlan::Entry& e = plan_.entries[i];
    auto function = reinterpret_cast<Function>(linked_->address("entry_" + std::to_string(i)));
    entries_.push_back({function, e.parallel, e.chained, e.extent, e.grain});
  }
}

Code::Function CpuCode::plain_function() const {
  bool plain = entries_.size() == 1 && !entries_.front().parallel && plan_.workspace_bytes == 0 &&
               plan_.scratch_bytes == 0 && !plan_.asks;
  return plain ? entries_.front().function : nullptr;
}

int64_t CpuCode::iterations() const {
  bool one_loop = entries_.size() == 1 && entries_.front().parallel && plan_.workspace_bytes == 0 &&
                  plan_.parameters.empty();
  const Expr* extent = one_loop ? &entries_.front().extent : nullptr;
  return extent != nullptr && extent->is_constant() ? std::max<int64_t>(0, extent->value()) : 0;
}

void CpuCode::run_iterations(std::span<void* const> pointers, int64_t begin, int64_t end) const {
  internal_check(pointers.size() == plan_.written.size() && 0 <= begin && end <= iterations(),
                 "cpu: iterations of a loop");
  // Of code that asks whether it is to end: it does not.
  const int64_t question = 0;
  run_chunk(entries_.front(), {pointers.data(), &question, nullptr, 1, nullptr, nullptr}, begin,
            end);
}

void CpuCode::run_chunk(const EntryPoint& entry, const Call& call, int64_t begin,
                        int64_t end) const {
  trace::Scope span("chunk", "chunk");
  std::byte* own = plan_.scratch_bytes == 0 ? nullptr : scratch(plan_.scratch_bytes);
  entry.function(call.pointers, call.parameters, call.workspace, own, begin, end);
}

void CpuCode::launch(std::span<void* const> pointers, std::span<const int64_t> parameters,
                     const LaunchOptions& options) const {
  internal_check(pointers.size() == plan_.written.size(), "cpu: the number of arguments");
  internal_check(parameters.size() == plan_.parameters.size(), "cpu: the number of parameters");
  if (options.workspace == nullptr && plan_.workspace_bytes > 0) {
    AlignedMemory own = allocate_aligned(plan_.workspace_bytes);
    LaunchOptions with_workspace = options;
    with_workspace.workspace = own.get();
    return launch(pointers, parameters, with_workspace);
  }
  int limit = options.threads > 0 ? options.threads : threads_;
  Call call{pointers.data(), parameters.data(), options.workspace,
            limit,           options.control,   options.pool};
  Answer answer(options.control);
  std::vector<int64_t> with_question(plan_.asks ? parameters.size() + 1 : 0);
  if (plan_.asks) {
    std::copy(parameters.begin(), parameters.end(), with_question.begin());
    with_question.back() = options.control == nullptr ? 0 : reinterpret_cast<intptr_t>(&answer);
    call.parameters = with_question.data();
  }
  run_entries(call);
  if (call.is_over()) throw call.control->reason(options.where);
}

void CpuCode::run_entries(const Call& call) const {
  for (size_t i = 0; i < entries_.size() && !call.is_over(); ++i) {
    const EntryPoint& entry = entries_[i];
    if (entry.chained && i + 2 < entries_.size()) {
      run_doacross(&entry, call);
      i += 2;
    } else {
      entry.parallel ? run_parallel(entry, call) : run_chunk(entry, call, 0, 1);
    }
  }
}

// Turns are taken up in order, so that the one that a turn waits for is always under way.
void CpuCode::run_doacross(const EntryPoint* entries, const Call& call) const {
  int64_t turns = extent_of(entries[2], call.parameters);
  int64_t links = extent_of(entries[0], call.parameters);
  std::atomic<int64_t> next{0}, linked{0};
  auto wait_for = [&](int64_t turn) {
    for (Spin spin; linked.load(std::memory_order_acquire) < turn;) spin.next();
  };
  auto take_turns = [&] {
    for (int64_t i = next++; i < turns && !call.is_over(); i = next++) {
      if (i < links) run_chunk(entries[0], call, i, i + 1);
      wait_for(i);
      if (i < links) run_chunk(entries[1], call, i, i + 1);
      linked.store(i + 1, std::memory_order_release);
      run_chunk(entries[2], call, i, i + 1);
    }
  };
  auto work = [&] {
    try {
      take_turns();
    } catch (...) {
      linked.store(turns, std::memory_order_release);  // nobody waits for this one
      throw;
    }
    if (call.is_over()) linked.store(turns, std::memory_order_release);
  };
  int64_t workers = std::clamp<int64_t>(turns / entries[2].grain, 1, call.threads);
  WorkerTeam::mine().run(workers, [&work](int64_t) { work(); }, call.control, call.pool);
}

void CpuCode::run_parallel(const EntryPoint& entry, const Call& call) const {
  int64_t extent = extent_of(entry, call.parameters);
  if (extent <= 0) return;
  int64_t workers = std::clamp<int64_t>(extent / entry.grain, 1, call.threads);
  if (workers == 1) {
    run_chunk(entry, call, 0, extent);
    return;
  }
  WorkStealingRange shares(extent, workers, entry.grain);
  WorkerTeam::mine().run(
      workers,
      [this, &shares, &entry, &call](int64_t worker) {
        for (auto run = shares.take(worker); run && !call.is_over(); run = shares.take(worker)) {
          run_chunk(entry, call, run->begin, run->end);
        }
      },
      call.control, call.pool);
}

void run_parallel(int64_t count, const std::function<void(int64_t)>& work, int threads,
                  const LaunchOptions& options) {
  if (count <= 0) return;
  int64_t workers = std::clamp<int64_t>(count, 1, threads);
  WorkStealingRange shares(count, workers, 1);
  auto is_over = [&] { return options.control != nullptr && options.control->is_over(); };
  auto take = [&](int64_t worker) {
    for (auto run = shares.take(worker); run && !is_over(); run = shares.take(worker)) {
      for (int64_t i = run->begin; i < run->end; ++i) work(i);
    }
  };
  WorkerTeam::mine().run(
      workers, [&take](int64_t worker) { take(worker); }, options.control, options.pool);
}

int64_t CpuCode::extent_of(const EntryPoint& entry, const int64_t* parameters) const {
  if (entry.extent.is_constant()) return entry.extent.value();
  auto value = [&](std::string_view name) -> std::optional<int64_t> {
    for (size_t i = 0; i < plan_.parameters.size(); ++i) {
      if (plan_.parameters[i] == name) return parameters[i];
    }
    return std::nullopt;
  };
  try {
    std::optional<int64_t> extent = evaluate(entry.extent, value);
    internal_check(extent.has_value(), "cpu: a parallel loop's extent");
    return *extent;
  } catch (const Overflow&) {
    fail(Stage::run, "overflow", {}, "a loop's extent exceeds 64 bits");
  }
}

}  // namespace tile::cpu
