// Texts of the stages of a compilation, made again from what the executable was compiled from.
#include <algorithm>

#include "backends/fork.h"
#include "core/pipeline/pipeline.h"
#include "runtime/engine/engine.h"

namespace tile {
namespace {

std::string each_launch(const Executable& e,
                        const std::function<std::string(const Launch&)>& text) {
  std::string out;
  for (const Launch& launch : e.launches) {
    if (!out.empty()) out += "\n";
    out += text(launch);
  }
  return out;
}

std::string after_pass(const Executable& e, std::string_view stage) {
  BoundProgram program = e.bound;
  std::string out;
  PipelineOptions options;
  options.after = [&](std::string_view pass, const BoundProgram& p) {
    if (pass == stage) out = print(p);
  };
  run_pipeline(program, e.engine->target(), options);
  return out;
}

std::string known_stages() {
  std::string out =
      "program, views, bound, reduced, kernels, schedule, nest, llvm, asm, cuda, ptx, sass";
  for (const Pass& pass : passes()) out += ", " + std::string(pass.name);
  return out;
}

std::string code_text(const Executable& e, const Launch& launch, std::string_view stage) {
  if (launch.sort) return "// sort: a routine of the runtime\n";
  std::string before;
  for (const PrepackedCopy& p : launch.prepared) {
    before += e.engine->backend().emit(p.nest, e.engine->target(), stage) + "\n";
  }
  return before + e.engine->backend().emit(launch.nest, e.engine->target(), stage);
}

// With the nests that make its copies of constants before it.
std::string nest_text(const Launch& launch) {
  if (launch.sort) return "# sort\n";
  std::string text;
  for (const PrepackedCopy& p : launch.prepared) text += "# once\n" + print(p.nest) + "\n";
  return text + print(launch.nest);
}

std::string kernel_text(const Launch& launch) {
  if (launch.kernel) return print(*launch.kernel);
  return launch.sort ? "sort\n" : "scatter\n";
}

}  // namespace

std::string emit(const Executable& e, std::string_view stage) {
  LockingCall call;
  if (stage == "program") return print(*e.source);
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
  if (stage == "kernels") return each_launch(e, kernel_text);
  if (stage == "schedule") {
    return each_launch(e, [](const Launch& l) {
      return l.kernel ? "# " + l.kernel->name + "\n" + print(l.schedule) : "# " + kernel_text(l);
    });
  }
  if (stage == "nest") {
    return each_launch(e, nest_text);
  }
  if (stage == "llvm" || stage == "asm" || stage == "cuda" || stage == "ptx" || stage == "sass") {
    return each_launch(e, [&](const Launch& l) { return code_text(e, l, stage); });
  }
  fail(Stage::run, "argument", {}, "unknown stage \"" + std::string(stage) + "\"",
       "expected one of " + known_stages());
}

}  // namespace tile
