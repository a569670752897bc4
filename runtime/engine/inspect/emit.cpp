// Texts of the stages of a compilation, made again from what the executable was compiled from.
#include <algorithm>

#include "backends/code_passes.h"
#include "backends/fork.h"
#include "core/pipeline/pipeline.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/pass_list.h"

namespace tile {
namespace {

// Those of a loop's step behind a line of their own.
std::string each_launch(const Executable& e, std::string_view comment,
                        const std::function<std::string(const Launch&)>& text) {
  std::string out;
  for (const Launch& launch : e.launches) {
    if (!out.empty()) out += "\n";
    if (launch.loop) {
      out += (comment.empty() ? "" : std::string(comment) + " ") + "loop of " +
             std::to_string(launch.loop->trips) + " steps\n" +
             each_launch(*launch.loop->step, comment, text);
    } else {
      out += text(launch);
    }
  }
  return out;
}

// What a pass made each time that it was run, one text after the other.
class Texts final : public PassObserver {
 public:
  explicit Texts(std::string_view pass) : pass_(pass) {}
  void ends(const PassInfo& pass, const PassText& print) override {
    if (pass.name != pass_ || !print) return;
    if (!text.empty()) text += "\n";
    text += print();
    run = true;
  }
  std::string text;
  bool run = false;

 private:
  const std::string_view pass_;
};

// The text after each pass that changed it. Programs, steps and nests are texts of their own; of
// each nest the one of the pass before counts.
class Changes final : public PassObserver {
 public:
  void ends(const PassInfo& pass, const PassText& print) override {
    if (!print) return;
    std::string now = print();
    if (now == before_) return;
    text += "== after " + std::string(to_string(pass.stage)) + ": " + std::string(pass.name) +
            "\n" + now;
    before_ = std::move(now);
  }
  std::string text;

 private:
  std::string before_;
};

std::string after_pass(const Executable& e, std::string_view pass) {
  BoundProgram program = e.bound;
  Texts texts(pass);
  run_pipeline(program, e.engine->target(), {{e.engine->options().skip_passes, &texts}});
  return std::move(texts.text);
}

// The stage that shows what a pass of code makes.
std::optional<std::string_view> stage_of(const PassInfo& pass) {
  if (pass.name == kEmitLlvm.name) return "llvm";
  if (pass.name == kMachineCode.name) return "asm";
  if (pass.name == kPrintCuda.name) return "cuda";
  if (pass.name == kCompileCuda.name) return "ptx";
  return std::nullopt;
}

// "after:" and a name.
std::string emit_after(const Executable& e, const std::string& name) {
  PassInfo pass = require_pass(name);
  if (pass.stage == PassStage::code) {
    std::optional<std::string_view> stage = stage_of(pass);
    if (stage) return emit(e, *stage);
    fail(Stage::run, "argument", {}, "the pass \"" + name + "\" makes no text",
         "the stages nest, llvm, asm, cuda, ptx and sass are texts of code");
  }
  if (name == kParse.name || name == kDifferentiate.name) return print(*e.source);
  Texts texts(name);
  compile_stages(e, &texts);
  if (!texts.run) {
    fail(Stage::run, "argument", {}, "the pass \"" + name + "\" was not run",
         "it is left out, or not for this device or program");
  }
  return std::move(texts.text);
}

std::string known_stages() {
  std::string out =
      "program, views, bound, reduced, kernels, schedule, nest, llvm, asm, cuda, ptx, sass, "
      "changes, "
      "after: and the name of a pass";
  for (const Pass& pass : passes()) out += ", " + std::string(pass.name);
  return out;
}

std::string code_text(const Executable& e, const Launch& launch, std::string_view stage) {
  if (launch.sort) return "// sort: a routine of the runtime\n";
  std::string before;
  for (const PrepackedCopy& p : launch.prepared) {
    before += e.engine->backend().emit(p.nest, e.engine->target(), stage) + "\n";
  }
  return before + e.engine->backend().emit(*launch.nest, e.engine->target(), stage);
}

// With the nests that make its copies of constants before it.
std::string nest_text(const Launch& launch) {
  if (launch.sort) return "# sort\n";
  std::string text;
  for (const PrepackedCopy& p : launch.prepared) text += "# once\n" + print(p.nest) + "\n";
  return text + print(*launch.nest);
}

std::string kernel_text(const Launch& launch) {
  if (launch.kernel) return print(*launch.kernel);
  return launch.sort ? "sort\n" : "scatter\n";
}

}  // namespace

std::string emit(const Executable& e, std::string_view stage) {
  LockingCall call;
  require_program(e);
  constexpr std::string_view kAfter = "after:";
  if (stage.starts_with(kAfter)) return emit_after(e, std::string(stage.substr(kAfter.size())));
  if (stage == "program") return print(*e.source);
  if (stage == "changes") return changes(e);
  if (e.restored) return emit(*compile_stages(e), stage);
  if (stage == "bound") return print(e.bound);
  if (stage == "reduced") return after_pass(e, "defract");
  auto all = passes();
  bool is_pass =
      std::any_of(all.begin(), all.end(), [&](const Pass& p) { return p.name == stage; });
  if (is_pass) return after_pass(e, stage);
  if (e.engine->is_reference()) {
    fail(Stage::run, "argument", {},
         "the reference backend has no stage \"" + std::string(stage) + "\"");
  }
  if (stage == "kernels") return each_launch(e, "", kernel_text);
  if (stage == "schedule") {
    return each_launch(e, "#", [](const Launch& l) {
      return l.kernel ? "# " + l.kernel->name + "\n" + print(l.schedule) : "# " + kernel_text(l);
    });
  }
  if (stage == "nest") {
    return each_launch(e, "#", nest_text);
  }
  if (stage == "llvm" || stage == "asm" || stage == "cuda" || stage == "ptx" || stage == "sass") {
    bool is_llvm = stage == "llvm", is_asm = stage == "asm";
    return each_launch(e,
                       is_llvm  ? ";"
                       : is_asm ? "#"
                                : "//",
                       [&](const Launch& l) { return code_text(e, l, stage); });
  }
  fail(Stage::run, "argument", {}, "unknown stage \"" + std::string(stage) + "\"",
       "expected one of " + known_stages());
}

std::string changes(const Executable& e) {
  LockingCall call;
  Changes changes;
  compile_stages(e, &changes);
  return std::move(changes.text);
}

}  // namespace tile
