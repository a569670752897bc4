#include "core/interpret/interpret_ranks.h"

#include <algorithm>
#include <map>
#include <new>
#include <optional>

#include "core/interpret/interpreter.h"
#include "core/ir/analysis/uses.h"
#include "core/ir/ranks/reduce_part.h"
#include "core/support/checked.h"
#include "core/support/control.h"

namespace tile {
namespace {

class Lockstep {
 public:
  Lockstep(const std::vector<RankProgram>& ranks,
           const std::vector<std::vector<HostTensor>>& inputs, const InterpretOptions& options)
      : ranks_(ranks), next_(ranks.size(), 0) {
    internal_check(inputs.size() == ranks.size(), "interpret: ranks and inputs");
    runs_.reserve(ranks.size());
    for (size_t r = 0; r < ranks.size(); ++r) {
      runs_.emplace_back(ranks[r].program, inputs[r], options, false);
      steps_.push_back(steps_of(ranks[r]));
    }
  }

  std::vector<Interpretation> run() {
    size_t exchanges = ranks_.empty() ? 0 : ranks_[0].exchanges.size();
    under_way_.resize(exchanges);
    for (size_t e = 0; e < exchanges; ++e) {
      // What ends before has begun on all ranks.
      for (size_t r = 0; r < ranks_.size(); ++r) advance(r, RankStep{RankStep::Kind::begin, e});
      for (size_t r = 0; r < ranks_.size(); ++r) begin(r, e);
    }
    std::vector<Interpretation> results;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      advance(r, std::nullopt);
      results.push_back(runs_[r].collect());
    }
    return results;
  }

 private:
  using Parts = std::vector<std::vector<std::byte>>;

  // Until that step, or all.
  void advance(size_t rank, std::optional<RankStep> until) {
    for (size_t& next = next_[rank]; next < steps_[rank].size(); ++next) {
      RankStep step = steps_[rank][next];
      if (until && step.kind == until->kind && step.number == until->number) {
        ++next;
        return;
      }
      internal_check(step.kind != RankStep::Kind::begin, "interpret: exchanges out of order");
      step.kind == RankStep::Kind::end ? end(rank, step.number) : execute(rank, step.number);
    }
  }

  void execute(size_t rank, size_t number) {
    const BoundStatement& statement = ranks_[rank].program.statements[number];
    runs_[rank].execute(statement);
    put_into_wholes(rank, written_by(statement));
  }

  void put_into_wholes(size_t rank, const std::vector<TensorId>& set) {
    const RankProgram& program = ranks_[rank];
    for (const PartOfTensor& part : program.parts) {
      if (!contains(set, part.part)) continue;
      const BoundTensor& whole = program.program.tensors[part.whole];
      copy_in(runs_[rank].tensor(part.part).bytes.data(), whole.shape,
              box_of(program.program, part), byte_size(whole.type),
              runs_[rank].tensor(part.whole).bytes.data());
    }
  }

  void begin(size_t rank, size_t e) {
    const Exchange& what = ranks_[rank].exchanges[e].what;
    const HostTensor& source = runs_[rank].tensor(what.source);
    const BoundTensor& declared = ranks_[rank].program.tensors[what.source];
    for (const Exchange::Part& part : what.sends) {
      checkpoint();
      size_t width = byte_size(declared.type);
      std::vector<std::byte> bytes(static_cast<size_t>(part.box.count()) * width);
      copy_out(source.bytes.data(), declared.shape, part.box, width, bytes.data());
      under_way_[e][{rank, static_cast<size_t>(part.rank)}].push_back(std::move(bytes));
    }
  }

  void end(size_t rank, size_t e) {
    const Exchange& what = ranks_[rank].exchanges[e].what;
    HostTensor& result = runs_[rank].tensor(what.result);
    // Who reads what nobody may read shall see it.
    if (what.sparse) std::ranges::fill(result.bytes, std::byte{0xff});
    PartReducer reducer(what, ranks_[rank].program.tensors[what.result]);
    std::map<size_t, size_t> taken;
    for (const Exchange::Part& part : what.receives) {
      checkpoint();
      auto s = static_cast<size_t>(part.rank);
      const Parts& parts = under_way_[e][{s, rank}];
      internal_check(taken[s] < parts.size(), "interpret: a part that nobody sent");
      reducer.receive(part.box, parts[taken[s]++].data(), result.bytes.data());
    }
    put_into_wholes(rank, {what.result});
  }

  const std::vector<RankProgram>& ranks_;
  std::vector<Interpreter> runs_;
  std::vector<std::vector<RankStep>> steps_;  // of each rank
  std::vector<size_t> next_;                  // the step that each rank runs next
  // Of each exchange, by sender and receiver.
  std::vector<std::map<std::pair<size_t, size_t>, Parts>> under_way_;
};

}  // namespace

std::vector<Interpretation> interpret_ranks(const std::vector<RankProgram>& ranks,
                                            const std::vector<std::vector<HostTensor>>& inputs,
                                            const InterpretOptions& options) {
  try {
    return Lockstep(ranks, inputs, options).run();
  } catch (const std::bad_alloc&) {
    fail(Stage::compile, "limit", {}, "the program needs more memory than there is");
  } catch (const Overflow&) {
    fail(Stage::compile, "limit", {}, "an index or a size does not fit in 64 bits");
  }
}

}  // namespace tile
