#include "core/interpret/interpret_ranks.h"

#include <array>
#include <map>
#include <new>

#include "core/interpret/interpreter.h"
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
    }
  }

  std::vector<Interpretation> run() {
    size_t exchanges = ranks_.empty() ? 0 : ranks_[0].exchanges.size();
    for (size_t e = 0; e < exchanges; ++e) {
      for (size_t r = 0; r < ranks_.size(); ++r) advance(r, ranks_[r].exchanges[e].before);
      exchange(e);
    }
    std::vector<Interpretation> results;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      advance(r, ranks_[r].program.statements.size());
      results.push_back(runs_[r].collect());
    }
    return results;
  }

 private:
  void advance(size_t rank, size_t end) {
    for (; next_[rank] < end; ++next_[rank]) {
      runs_[rank].execute(ranks_[rank].program.statements[next_[rank]]);
    }
  }

  void exchange(size_t e) {
    using Parts = std::vector<std::vector<std::byte>>;
    std::map<std::pair<size_t, size_t>, Parts> under_way;  // by sender and receiver
    for (size_t s = 0; s < ranks_.size(); ++s) {
      const Exchange& what = ranks_[s].exchanges[e].what;
      const HostTensor& source = runs_[s].tensor(what.source);
      const BoundTensor& declared = ranks_[s].program.tensors[what.source];
      for (const Exchange::Part& part : what.sends) {
        checkpoint();
        size_t width = byte_size(declared.type);
        std::vector<std::byte> bytes(static_cast<size_t>(part.box.count()) * width);
        copy_out(source.bytes.data(), declared.shape, part.box, width, bytes.data());
        under_way[{s, static_cast<size_t>(part.rank)}].push_back(std::move(bytes));
      }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const Exchange& what = ranks_[r].exchanges[e].what;
      HostTensor& result = runs_[r].tensor(what.result);
      PartReducer reducer(what, ranks_[r].program.tensors[what.result]);
      std::map<size_t, size_t> taken;
      for (const Exchange::Part& part : what.receives) {
        checkpoint();
        auto s = static_cast<size_t>(part.rank);
        const Parts& parts = under_way[{s, r}];
        internal_check(taken[s] < parts.size(), "interpret: a part that nobody sent");
        reducer.receive(part.box, parts[taken[s]++].data(), result.bytes.data());
      }
    }
  }

  const std::vector<RankProgram>& ranks_;
  std::vector<Interpreter> runs_;
  std::vector<size_t> next_;  // the statement that each rank runs next
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
