#include "core/pipeline/pipeline.h"

#include <array>

#include "core/layout/layout.h"
#include "core/passes/normalize/domains.h"
#include "core/passes/normalize/normalize.h"
#include "core/passes/optimize/optimize.h"
#include "core/support/control.h"

namespace tile {
namespace {

constexpr Pass row(std::string_view name, void (*run)(BoundProgram&, const Target&), bool optional,
                   std::string_view summary) {
  return {{PassStage::tensor, name, optional, summary}, run};
}

constexpr bool kOptional = true;

constexpr std::array kPasses = {
    row("dead-code", eliminate_dead_code, kOptional, "drops statements that no output needs"),
    row("unroll-folds", unroll_folds, kOptional,
        "writes out loops inside elements that run a few times"),
    row("fold-constants", fold_constants, kOptional, "computes what constants alone decide"),
    row("hoist-folds", hoist_folds, kOptional,
        "makes loops inside elements reductions of their own"),
    row("common-subexpressions", share_common_subexpressions, kOptional,
        "computes equal statements and values once"),
    row("gather-constraints", gather_constraints, !kOptional,
        "writes the ranges of accesses as conditions"),
    row("reduce", reduce, !kOptional, "changes iterators so that every index is an integer"),
    row("defract", defract, !kOptional,
        "peels digits into pieces with exact boxes: the normal form"),
    row("digits", split_digits, kOptional, "makes quotients and remainders of an index iterators"),
    row("resolve-indices", resolve_indices, kOptional,
        "turns indices that are values into affine forms"),
    row("fold-decided", fold_constants, kOptional,
        "computes what constants decide after the normal form"),
    row("forward-views", forward_views, kOptional,
        "reads a tensor where a view that adds or drops dimensions of one cell was read"),
    row("forward-copies", forward_copies, kOptional,
        "reads a tensor where a copy of all its cells was read"),
    row("assemble-sums", assemble_sums, kOptional,
        "makes sums of tensors with values in different cells one statement of several pieces"),
    row("stack-sums", stack_sums, kOptional,
        "makes sums of sums of one form one sum over stacked operands"),
    row("separate-factors", separate_factors, kOptional,
        "multiplies a product's matrix by what each of its terms is multiplied with or divided by"),
    row("choose-by-conditions", choose_by_conditions, kOptional,
        "makes conditions of cheap pointwise statements choices"),
    row("drop-conditions", drop_conditions, kOptional,
        "computes pointwise statements everywhere that are read under their conditions alone"),
    row("inline-pointwise", inline_pointwise, kOptional,
        "computes cheap pointwise statements where they are read"),
    row("unused-producers", eliminate_dead_code, kOptional,
        "drops statements that were inlined everywhere"),
    row("split-tuples", split_tuples, kOptional, "stores the components of tuples as arrays"),
    row("narrow-temporaries", narrow_temporaries, kOptional,
        "stores integers in the narrowest type that holds them"),
    row("tabulate", tabulate, kOptional, "looks up costly functions of one byte"),
    row("narrow-bodies", narrow_bodies, kOptional,
        "computes small integers in lanes of 8 or 16 bits"),
    row("store-comparisons", store_comparisons, kOptional,
        "stores comparisons instead of the elements that are read for them alone"),
    row("straighten-bands", straighten_bands, kOptional,
        "sums a band of scores by columns, with the band as a condition"),
    row("exchange-sums", exchange_sums, kOptional,
        "sums another result instead of the scores that both are made of"),
    row("round-factors", round_factors, kOptional,
        "rounds a factor of terms that are rounded, so that tensor cores take both"),
    row("recompute-streams", recompute_streams, kOptional,
        "computes products again in each kernel that sums them up, block by block"),
    row("factor-sums", factor_sums, kOptional,
        "applies factors and divisors that all terms end with to their sum"),
    row("split-reduction", split_reduction, kOptional,
        "divides a long reduction to a few cells into chunks"),
    row("gather-sums", gather_row_sums, kOptional,
        "divides sums over rows where a kernel of these rows can gather them"),
    row("order-dimensions", order_dimensions, kOptional,
        "stores a temporary with dimensions of one role in products together"),
    row("arrange-factors", arrange_factors, kOptional,
        "copies factors of products to where a GPU fetches them fast"),
    row("group-dimensions", group_dimensions, kOptional,
        "copies factors so that dimensions of one role stand together"),
    row("share-factor-copies", share_factor_copies, kOptional,
        "copies a factor of several products once, in the order in which they walk it"),
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

void run_pipeline(BoundProgram& program, const Target& target, const PipelineOptions& options) {
  auto verify_all = [&] {
    verify(program);
    verify_accesses(program);
  };
  bool each = !options.verified_at_end || options.passes.verify_each;
  for (const Pass& pass : kPasses) {
    auto work = [&] {
      checkpoint_at({});
      pass.run(program, target);
      if (each) verify_all();
    };
    bool done = run_pass(pass, options.passes, work, [&] { return print(program); });
    if (done && options.after) options.after(pass.name, program);
  }
  if (!each) verify_all();
}

}  // namespace tile
