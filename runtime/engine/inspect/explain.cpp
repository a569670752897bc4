// What each kernel became, in words: class and roles, domain, tiles, vector width, remaining
// guards, and what the cost model says of it.
#include "runtime/engine/inspect/explain.h"

#include <algorithm>

#include "backends/fork.h"
#include "core/ir/text.h"
#include "core/kernel/forms/window_report.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/explain_cost.h"
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
  s.block(launch.nest.body, false);
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

// What each step is, a little to the right.
std::string loop_text(const StepLoop& loop) {
  std::string out = "loop of " + std::to_string(loop.trips) + " steps" +
                    (loop.blocks ? ", " + print(*loop.blocks) : "") + ", of which each is\n  ";
  std::string step = explain(*loop.step);
  for (size_t i = 0; i < step.size(); ++i) {
    out += step[i];
    if (step[i] == '\n' && i + 1 < step.size()) out += "  ";
  }
  return out;
}

std::string loop_json(const StepLoop& loop) {
  std::string step = explain(*loop.step, {.json = true, .measured_ns = {}});
  step.pop_back();
  std::string tiles = loop.blocks ? ",\"blocks\":\"" + print(*loop.blocks) + "\"" : "";
  return "{\"kernel\":\"loop\",\"trips\":" + std::to_string(loop.trips) + tiles +
         ",\"step\":" + step + "}";
}

}  // namespace

std::string explain(const Executable& e, const ExplainOptions& options) {
  LockingCall call;
  if (e.engine->is_reference()) {
    return options.json ? "{\"kernels\":[]}\n"
                        : "the reference interpreter runs the program as bound\n";
  }
  if (e.restored) return explain(*compile_stages(e), options);
  std::string text, json;
  std::string processor = e.engine->kernels().records(e.engine->target()).processor();
  WindowNotes notes;
  for (size_t i = 0; i < e.launches.size(); ++i) {
    LaunchCost cost = launch_cost(e.launches[i], e.engine->target());
    if (i < options.measured_ns.size()) cost.measured_ns = options.measured_ns[i];
    if (e.launches[i].record) cost.record = short_name(e.launches[i].record->record, processor);
    if (options.json && e.launches[i].loop) {
      json += (json.empty() ? "" : ",") + loop_json(*e.launches[i].loop);
    } else if (options.json) {
      json += (json.empty() ? "" : ",") + to_json(cost);
    } else if (e.launches[i].loop) {
      text += loop_text(*e.launches[i].loop);
    } else {
      text += launch_text(e.launches[i], processor, notes) + to_text(cost);
    }
  }
  if (options.json) {
    return "{\"kernels\":[" + json + "],\"temporary_bytes\":" + std::to_string(e.arena_bytes) +
           "}\n";
  }
  return text + std::to_string(e.arena_bytes) + " bytes of temporaries\n";
}

}  // namespace tile
