#include "core/pipeline/pipeline.h"

#include <algorithm>
#include <array>

#include "core/layout/layout.h"
#include "core/passes/normalize/domains.h"
#include "core/passes/normalize/normalize.h"
#include "core/passes/optimize/optimize.h"
#include "core/support/control.h"

namespace tile {
namespace {

constexpr std::array kPasses = {
    Pass{"dead-code", eliminate_dead_code, true},
    Pass{"unroll-folds", unroll_folds, true},
    Pass{"fold-constants", fold_constants, true},
    Pass{"hoist-folds", hoist_folds, true},
    Pass{"common-subexpressions", share_common_subexpressions, true},
    Pass{"gather-constraints", gather_constraints, false},
    Pass{"reduce", reduce, false},
    Pass{"defract", defract, false},
    Pass{"digits", split_digits, true},
    Pass{"resolve-indices", resolve_indices, true},
    Pass{"fold-decided", fold_constants, true},
    Pass{"choose-by-conditions", choose_by_conditions, true},
    Pass{"inline-pointwise", inline_pointwise, true},
    Pass{"unused-producers", eliminate_dead_code, true},
    Pass{"split-tuples", split_tuples, true},
    Pass{"narrow-temporaries", narrow_temporaries, true},
    Pass{"tabulate", tabulate, true},
    Pass{"narrow-bodies", narrow_bodies, true},
    Pass{"split-reduction", split_reduction, true},
    Pass{"arrange-factors", arrange_factors, true},
    Pass{"group-dimensions", group_dimensions, true},
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

void run_pipeline(BoundProgram& program, const Target& target, const PipelineOptions& options) {
  for (const Pass& pass : kPasses) {
    bool skipped =
        std::find(options.skip.begin(), options.skip.end(), pass.name) != options.skip.end();
    if (skipped && pass.optional) continue;
    checkpoint_at({});
    pass.run(program, target);
    verify(program);
    verify_accesses(program);
    if (options.after) options.after(pass.name, program);
  }
}

}  // namespace tile
