#include "runtime/cli/commands.h"

#include <algorithm>
#include <iostream>

#include "core/distribute/explain_ranks.h"
#include "core/language/lift/views.h"
#include "core/language/tile/tile.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/table/command_info.h"
#include "runtime/cli/tensor_file.h"
#include "runtime/engine/inspect/explain.h"
#include "runtime/engine/inspect/pass_list.h"

namespace tile::cli {
namespace {

// What --shape says of each input.
std::vector<InputLayout> given_layouts(const LoadedProgram& program, const Inputs& inputs) {
  std::vector<InputLayout> layouts;
  std::vector<std::string> given = values_by_input(program, inputs.shapes, "--shape");
  for (size_t i = 0; i < given.size(); ++i) {
    const std::optional<HostTensor>& value = program.defaults()[i];
    bool left_out = given[i].empty() && value;
    layouts.push_back(
        {left_out ? InputType{value->type, value->shape} : parse_shape(given[i]), {}});
  }
  return layouts;
}

// Bodies that MFG and Lift make have no Tile text.
bool is_tile_text(const std::string& text) {
  try {
    parse_tile(std::make_shared<const Source>(Source{"gradient.tile", text}));
    return true;
  } catch (const Failure&) {
    return false;
  }
}

// The one backend that has a stage, where it is one backend's: what else is `auto`.
std::string backend_of_stage(const std::string& stage) {
  if (stage == "llvm" || stage == "asm") return "cpu";
  return stage == "cuda" || stage == "ptx" || stage == "sass" ? "cuda" : "auto";
}

// Told before anything is asked of the inputs. What a device or a program lacks is told later.
void require_stage(const std::string& stage) {
  constexpr std::string_view kAfter = "after:";
  if (stage.starts_with(kAfter))
    return static_cast<void>(require_pass(stage.substr(kAfter.size())));
  std::vector<std::string> known = known_values("--stage");
  std::vector<PassInfo> passes = all_passes();
  bool is_known = stage == "changes" ||
                  std::find(known.begin(), known.end(), stage) != known.end() ||
                  std::any_of(passes.begin(), passes.end(),
                              [&](const PassInfo& pass) { return pass.name == stage; });
  if (is_known) return;
  fail(Stage::run, "argument", {}, "unknown stage \"" + stage + "\"",
       "one of " + listed(known) + ", or after: and the name of a pass (`tile passes` lists them)");
}

// CUDA can be made for a GPU that is elsewhere, where there is no driver.
std::shared_ptr<Engine> emitting_engine(const Options& options) {
  try {
    return make_engine(options);
  } catch (const Failure& failure) {
    const Diagnostic& d = failure.diagnostic();
    if (d.code != "driver" || !options.features.empty()) throw;
    fail(d.stage, d.code, d.span, d.message,
         "for a GPU that is elsewhere say which: --features sm_90a; to run here, " + d.hint);
  }
}

}  // namespace

std::shared_ptr<const Executable> compiled(LoadedProgram& program, const Inputs& inputs) {
  std::vector<InputLayout> layouts = given_layouts(program, inputs);
  if (inputs.constants.empty()) {
    return located(program.program().source, [&] { return program.executable(layouts); });
  }
  std::vector<HostTensor> zeros;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const std::optional<HostTensor>& value = program.defaults()[i];
    zeros.push_back(value ? *value : HostTensor(layouts[i].type.type, layouts[i].type.shape));
  }
  std::vector<size_t> constants = numbers_of(program, inputs.constants);
  return located(program.program().source,
                 [&] { return executable_for(program, zeros, constants); });
}

int command_check(const std::string& file, const Inputs& inputs, const Options& options) {
  std::shared_ptr<LoadedProgram> program = load(make_engine(options), file, options);
  if (!inputs.shapes.empty()) {
    std::shared_ptr<const Executable> e = compiled(*program, inputs);
    print_warnings(*program, e.get(), options);
    report_passes(*e, options);
    for (size_t i = 0; i < e->bound.outputs.size(); ++i) {
      const BoundTensor& t = e->output(i);
      std::cout << t.name << ": " << kind_text(t.type, t.shape) << "\n";
    }
  } else {
    print_warnings(*program, nullptr, options);
  }
  std::cout << file << ": inputs " << listed(input_names(*program)) << "; outputs "
            << listed(output_names(*program)) << "\n";
  return 0;
}

int command_emit(const std::string& file, const Inputs& inputs, const std::string& stage,
                 const MeshArguments& mesh, const Options& given) {
  require_stage(stage);
  Options options = given;
  if (options.backend == "auto") options.backend = backend_of_stage(stage);
  std::shared_ptr<LoadedProgram> program = load(emitting_engine(options), file, options);
  if (!mesh.mesh.empty()) {
    Division parts = divided(*program, given_layouts(*program, inputs), mesh);
    size_t number = 0;
    for (const RankProgram& rank : overlapped_ranks(program->engine(), parts.parts, mesh)) {
      std::cout << "# rank " << number++ << "\n" << print(rank);
    }
    return 0;
  }
  if (stage == "program") {
    std::cout << program->text();
    return 0;
  }
  if (stage == "views") {
    std::cout << print_views(program->program());
    return 0;
  }
  std::shared_ptr<const Executable> e = compiled(*program, inputs);
  report_passes(*e, options);
  std::cout << located(program->program().source, [&] { return emit(*e, stage); });
  return 0;
}

int command_explain(const std::string& file, const Inputs& inputs,
                    const ExplainArguments& arguments, const Options& options) {
  std::shared_ptr<LoadedProgram> program = load(make_engine(options), file, options);
  if (!arguments.mesh.mesh.empty()) {
    MeshArguments mesh = arguments.mesh;
    mesh.explains = true;
    Division parts = divided(*program, given_layouts(*program, inputs), mesh);
    std::cout << explain(parts.program, parts.parts);
    std::cout << explained_overlap(*program, parts, mesh);
    if (parts.choice) std::cout << explain(*parts.choice);
    std::string transport = LocalRanks(program->engine(), parts.parts.ranks.size()).transport();
    if (!transport.empty()) std::cout << transport << "\n";
    return 0;
  }
  std::shared_ptr<const Executable> e = compiled(*program, inputs);
  ExplainOptions how;
  how.json = arguments.json;
  how.all = arguments.all;
  how.kernels = arguments.kernels;
  if (arguments.measure) {
    how.measured_ns = launch_times(*program, *e, random_inputs(*program, inputs.shapes));
  }
  report_passes(*e, options);
  std::cout << located(program->program().source, [&] { return explain(*e, how); });
  bool table = !how.json && !how.all && how.kernels.empty();
  if (table && !e->engine->is_reference()) {
    std::cout << "--kernel NUMBER tells why of one, --all of all of them\n";
  }
  return 0;
}

int command_grad(const std::string& file, const std::string& of, const std::string& wrt,
                 const Options& options) {
  std::shared_ptr<LoadedProgram> program = load(make_engine(options), file, options);
  std::shared_ptr<LoadedProgram> gradient = with_gradient(program, of + ":" + wrt);
  if (!is_tile_text(gradient->text())) {
    std::cout
        << "// To be read: some elements are in the compiler's own notation, which is no Tile. "
           "It is run by\n// tile run --grad " +
               of + ":" + wrt + "\n";
  }
  std::cout << gradient->text();
  return 0;
}

int command_passes() {
  std::cout << pass_table();
  return 0;
}

}  // namespace tile::cli
