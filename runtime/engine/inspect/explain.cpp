// What each kernel became, in words: class and roles, domain, tiles, vector width, remaining
// guards, and what the cost model says of it.
#include "runtime/engine/inspect/explain.h"

#include <algorithm>

#include "backends/fork.h"
#include "core/ir/text.h"
#include "core/kernel/forms/window_report.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/explain_summary.h"
#include "runtime/engine/inspect/explain_trade.h"
#include "runtime/engine/records/record_set.h"
#include "runtime/engine/steps/steps_in_blocks.h"

namespace tile {
namespace {

// What the innermost code of a nest looks like.
struct NestSummary {
  int64_t widest_vector = 1;
  int guards = 0;         // tests left in vector or unrolled code of interior bodies
  int versions = 0;       // tiles with an interior and a general body
  int scalar_stores = 0;  // stores outside any vector loop
  int vector_stores = 0;
  bool parallel = false;
};

class Summarizer {
 public:
  NestSummary summary;
  void block(const nest::Block& statements, bool vector) {
    for (const nest::Statement& s : statements) {
      std::visit([&](const auto& what) { statement(what, vector); }, s.what);
    }
  }

 private:
  void statement(const nest::For& f, bool vector) {
    bool here = f.kind == nest::LoopKind::vector;
    if (here) summary.widest_vector = std::max(summary.widest_vector, f.width);
    summary.parallel = summary.parallel || f.kind == nest::LoopKind::parallel;
    block(f.body, vector || here);
  }
  void statement(const nest::If& i, bool vector) {
    bool version = !i.otherwise.empty();
    ++(version ? summary.versions : summary.guards);
    block(i.then, vector);
    // The general body of a versioned tile is expected to test; only its stores count.
    int guards = summary.guards;
    block(i.otherwise, vector);
    if (version) summary.guards = guards;
  }
  void statement(const nest::Store&, bool vector) {
    ++(vector ? summary.vector_stores : summary.scalar_stores);
  }
  void statement(const nest::Alloc&, bool) {}
  void statement(const nest::Sync&, bool) {}
  void statement(const nest::Copy&, bool) {}
  void statement(const nest::MatrixTile&, bool) {}
  void statement(const nest::MatrixMove&, bool) {}
};

std::string domain_text(const Piece& piece, const PieceClass& kind) {
  std::string out;
  for (size_t i = 0; i < piece.iterators.size(); ++i) {
    out += (i == 0 ? "" : ", ") + piece.iterators[i] + " < " + std::to_string(piece.box[i]) + " (" +
           std::string(to_string(kind.roles[i])) + ")";
  }
  for (const Constraint& c : piece.constraints) {
    out += "; " + std::to_string(c.lo) + " <= " + to_string(c.form, piece.iterators) + " < " +
           std::to_string(c.hi);
  }
  return out;
}

// Windows told so far, by what they slide over and by what they make.
class WindowNotes {
 public:
  std::string separable(const Piece& piece, Aggregation aggregation) const {
    std::vector<std::vector<size_t>> groups = separable_window(piece, aggregation);
    if (groups.empty()) return "";
    std::string names, terms;
    double together = 1;
    for (const std::vector<size_t>& group : groups) {
      int64_t size = 1;
      std::string members;
      for (size_t u : group) {
        size *= piece.box[u];
        members += (members.empty() ? "" : ", ") + piece.iterators[u];
      }
      together *= static_cast<double>(size);
      names += (names.empty() ? "" : ", then over ") + members;
      terms += (terms.empty() ? "" : " + ") + std::to_string(size);
    }
    return "    its window is separable: over " + names + " takes " + terms + " terms instead of " +
           std::to_string(static_cast<int64_t>(together)) + "\n";
  }

  std::string repeated(const Contraction& contraction, const Piece& piece,
                       const std::string& here) {
    std::optional<SlidingWindow> window = sliding_window(piece);
    if (!window) return "";
    std::string out;
    for (const Told& other : told_) {
      if (other.window.form != window->form) continue;
      if (other.window.tensor == window->tensor) {
        out += "    slides the same window over the same tensor as " + other.name + "\n";
      } else if (other.result == window->tensor) {
        out += "    repeats the window of " + other.name + " on its result\n";
      }
    }
    told_.push_back({*window, contraction.outputs[0], here});
    return out;
  }

 private:
  struct Told {
    SlidingWindow window;
    TensorId result;
    std::string name;
  };
  std::vector<Told> told_;
};

std::string stage_text(const Launch& launch, size_t at, WindowNotes& notes) {
  const Kernel& kernel = *launch.kernel;
  const KernelStage& stage = kernel.stages[at];
  std::string out;
  for (size_t p = 0; p < stage.contraction.pieces.size(); ++p) {
    const Piece& piece = stage.contraction.pieces[p];
    PieceClass kind = classify(piece, stage.contraction, kernel.tensors);
    out += "  stage " + std::to_string(at);
    if (stage.contraction.pieces.size() > 1) out += " piece " + std::to_string(p);
    out += ": " + std::string(to_string(kind.kind)) + ", domain " + domain_text(piece, kind) + "\n";
    out += notes.separable(piece, stage.contraction.aggregation);
    out += notes.repeated(stage.contraction, piece,
                          "stage " + std::to_string(at) + " of kernel " + kernel.name);
    if (stage.attach.valid()) {
      out += "    computed in the register tile of stage " + to_string(stage.attach) + "\n";
    }
    for (size_t r = 0; r < stage.rows.size(); ++r) {
      out += "    for each row " + piece.iterators[stage.rows[r]] + "\n";
    }
    if (stage.stream.valid()) {
      out += "    for each block of " + piece.iterators[stage.stream] + "\n";
    }
    if (stage.rescale.valid()) {
      out += "    rescaled where the running maximum of stage " + to_string(stage.rescale) +
             " rises\n";
    }
    if (stage.residence == Residence::row) out += "    its result is kept for the row alone\n";
  }
  return out;
}

std::string launch_text(const Launch& launch, const std::string& processor, WindowNotes& notes) {
  if (launch.sort) return "sort: a routine of the runtime\n";
  std::string out = launch.kernel ? "kernel " + launch.kernel->name + "\n" : "scatter\n";
  if (launch.kernel) {
    for (size_t i = 0; i < launch.kernel->stages.size(); ++i) {
      out += stage_text(launch, i, notes);
    }
  }
  Summarizer s;
  s.block(launch.nest->body, false);
  out += "  vectors of " + std::to_string(s.summary.widest_vector) + " elements, " +
         (s.summary.parallel ? "parallel" : "one thread") + ", " +
         std::to_string(s.summary.vector_stores) + " vector and " +
         std::to_string(s.summary.scalar_stores) + " scalar statements\n";
  out += "  " + std::to_string(s.summary.versions) + " tiles with an interior body, " +
         std::to_string(s.summary.guards) + " guards remain\n";
  for (const PrepackedCopy& p : launch.prepared) {
    const BoundTensor& t = launch.kernel->tensors[p.source];
    out +=
        "  " + t.name + " is packed once, before all runs: " + std::to_string(p.bytes) + " bytes\n";
  }
  if (!launch.own_code_because.empty()) {
    out += "  shares no code with other sizes: " + launch.own_code_because + "\n";
  }
  if (launch.record) out += "  tuned, record " + describe(*launch.record, processor) + "\n";
  if (launch.kernel) out += "  tiles:\n" + print(launch.schedule);
  return out;
}

}  // namespace

std::string explain(const Executable& e) { return explain(e, {}); }

namespace {

// Bytes of temporaries from which it is told what less would cost.
constexpr size_t kWorthATrade = size_t{1} << 20;

struct Told {
  LaunchSummary summary;
  std::string details;
};

class Explanation {
 public:
  Explanation(const Executable& executable, const ExplainOptions& options)
      : e_(executable), options_(options) {
    // A table needs no other schedules, and looking for them takes longer than all the rest.
    details_ = options.json || options.all || !options.kernels.empty();
    for (size_t i = 0; i < e_.launches.size(); ++i) add(e_.launches[i], i);
  }

  std::string text() const {
    if (!options_.kernels.empty()) return asked_for();
    std::string out, details;
    for (const Told& t : told_) details += t.details;
    std::vector<LaunchSummary> rows = summaries();
    out = rows.empty() ? "nothing is launched\n" : to_text(rows);
    out += std::to_string(e_.arena_bytes) + " bytes of temporaries\n" + trade_text();
    return options_.all && !details.empty() ? out + "\n" + details : out;
  }
  std::string json() const {
    std::string out =
        "{\"kernels\":[" + json_ + "],\"temporary_bytes\":" + std::to_string(e_.arena_bytes);
    if (std::optional<LeastStored> least = trade()) {
      out += ",\"least_stored\":{\"estimate_ns\":" + json_number(least->ns) +
             ",\"temporary_bytes\":" + std::to_string(least->temporary_bytes) + "}";
    }
    return out + "}";
  }
  std::vector<LaunchSummary> summaries() const {
    std::vector<LaunchSummary> rows;
    for (const Told& t : told_) rows.push_back(t.summary);
    return rows;
  }

 private:
  // What less memory would cost.
  std::optional<LeastStored> trade() const {
    return e_.arena_bytes < kWorthATrade ? std::nullopt : least_stored(e_);
  }
  std::string trade_text() const {
    std::optional<LeastStored> least = trade();
    if (!least) return "";
    return std::to_string(least->temporary_bytes) + " bytes and " + microseconds(least->ns) +
           " by the model where less is stored and computed again: with a smaller memory_limit\n";
  }

  void add(const Launch& launch, size_t at) {
    std::string number = std::to_string(at + 1);
    json_ += json_.empty() ? "{" : ",{";
    launch.loop ? add_loop(launch, number, at) : add_kernel(launch, number, at);
    json_ += "}";
  }

  void add_kernel(const Launch& launch, const std::string& number, size_t at) {
    std::string processor = e_.engine->kernels().records(e_.engine->target()).processor();
    LaunchCost cost = launch_cost(launch, e_.engine->target(), details_);
    cost.measured_ns = measured(at);
    if (launch.record) cost.record = short_name(launch.record->record, processor);
    LaunchSummary summary = summary_of(e_, launch, cost, number);
    json_ += json_fields(cost) + "," + json_fields(summary);
    told_.push_back(
        {summary, details_ ? launch_text(launch, processor, notes_) + to_text(cost) : ""});
  }

  void add_loop(const Launch& launch, const std::string& number, size_t at) {
    const StepLoop& loop = *launch.loop;
    std::string blocks = loop.blocks ? print(*loop.blocks) : "";
    std::shared_ptr<const Executable> step = loop.step;
    if (step->restored) step = compile_stages(*step);
    ExplainOptions options = options_;
    options.measured_ns.clear();
    Explanation inner(*step, options);
    LaunchSummary summary = summary_of(e_, launch, inner.summaries(), number);
    summary.measured_ns = measured(at);
    json_ += "\"kernel\":\"loop\",\"trips\":" + std::to_string(loop.trips) +
             (loop.blocks ? ",\"blocks\":" + quoted(blocks) : "") + "," + json_fields(summary) +
             ",\"step\":" + inner.json();
    told_.push_back({summary, summary.classes[0] + (loop.blocks ? ", " + blocks : "") +
                                  ", of which each is\n"});
    for (Told& t : inner.told_) {
      t.summary.number.insert(0, number + ".");
      told_.push_back({t.summary, indented(t.details)});
    }
  }

  std::optional<double> measured(size_t at) const {
    if (at >= options_.measured_ns.size()) return std::nullopt;
    return options_.measured_ns[at];
  }

  static std::string indented(const std::string& lines) {
    std::string out;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (i == 0 || lines[i - 1] == '\n') out += "  ";
      out += lines[i];
    }
    return out;
  }

  // A loop is told with its steps.
  static bool is(const LaunchSummary& s, const std::string& asked) {
    return s.number == asked || s.number.rfind(asked + ".", 0) == 0 ||
           std::find(s.makes.begin(), s.makes.end(), asked) != s.makes.end();
  }

  std::string asked_for() const {
    std::string out;
    std::vector<bool> wanted(told_.size(), false);
    for (const std::string& asked : options_.kernels) {
      bool found = false;
      for (size_t i = 0; i < told_.size(); ++i) {
        if (!is(told_[i].summary, asked)) continue;
        found = wanted[i] = true;
      }
      if (!found) no_kernel(asked);
    }
    for (size_t i = 0; i < told_.size(); ++i) out += wanted[i] ? told_[i].details : "";
    return out;
  }

  [[noreturn]] void no_kernel(const std::string& asked) const {
    std::string made;
    for (const Told& t : told_) {
      made += (made.empty() ? "" : ", ") + t.summary.number + " " + t.summary.makes.back();
    }
    fail(Stage::run, "argument", {}, "the program has no kernel \"" + asked + "\"",
         made.empty() ? "it launches nothing" : "there are " + made);
  }

  const Executable& e_;
  const ExplainOptions& options_;
  bool details_ = true;
  WindowNotes notes_;
  std::vector<Told> told_;
  std::string json_;
};

}  // namespace

std::string explain(const Executable& e, const ExplainOptions& options) {
  LockingCall call;
  if (e.engine->is_reference()) {
    return options.json ? "{\"kernels\":[]}\n"
                        : "the reference interpreter runs the program as bound\n";
  }
  if (e.restored) return explain(*compile_stages(e), options);
  Explanation explanation(e, options);
  return options.json ? explanation.json() + "\n" : explanation.text();
}

}  // namespace tile
