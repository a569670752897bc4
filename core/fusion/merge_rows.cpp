#include "core/fusion/merge_rows.h"

#include <algorithm>
#include <vector>

#include "core/ir/analysis/uses.h"
#include "core/kernel/rows.h"

namespace tile {
namespace {

constexpr size_t kMostStages = 16;
constexpr size_t kMostReads = 24;

class RowMerge {
 public:
  explicit RowMerge(const BoundProgram& program) : program_(program) {}

  std::optional<Kernel> merged(const Kernel& first, const Kernel& second) const {
    if (fills_from(second, first)) return std::nullopt;
    size_t reads = 0;
    for (const Kernel* k : {&first, &second}) {
      for (const KernelStage& s : k->stages) {
        if (s.contraction.pieces.size() != 1) return std::nullopt;
        reads += s.contraction.pieces[0].loads.size();
      }
    }
    size_t stages = first.stages.size() + second.stages.size();
    if (stages > kMostStages || reads > kMostReads) return std::nullopt;
    Kernel a = all_rows(first), b = all_rows(second);
    std::optional<std::vector<RowPair>> pairs = row_pairs(a, b);
    if (!pairs || pairs->empty()) return std::nullopt;
    for (KernelStage& s : a.stages) {
      if (!s.attach.valid()) s.rows = chosen(s.rows, *pairs, true);
    }
    // Of what a kernel alone has, it has the shape (a pool's operand is split by its windows).
    for (const KernelStage& s : b.stages) {
      for (TensorId out : s.contraction.outputs) {
        if (a.tensors[out].shape != b.tensors[out].shape) a.tensors.edit(out) = b.tensors[out];
      }
    }
    size_t shift = a.stages.size();
    for (KernelStage& s : b.stages) {
      if (!s.attach.valid()) s.rows = chosen(s.rows, *pairs, false);
      if (s.attach.valid()) s.attach = StageId(s.attach.index() + shift);
      a.stages.push_back(std::move(s));
    }
    return a;
  }

 private:
  // Every parallel dimension of the stages with loops a row, unless the kernel has rows already.
  static Kernel all_rows(const Kernel& k) {
    Kernel all = k;
    if (row_loops(k) > 0) return all;
    for (size_t u = 0; u < k.stages[0].contraction.pieces[0].parallel_dims; ++u) {
      all.stages[0].rows.push_back(IteratorId(u));
    }
    return all;
  }

  struct RowPair {
    RowId first, second;
  };
  // Pairs of rows, one of each kernel, that every shared access names in one dimension.
  std::optional<std::vector<RowPair>> row_pairs(const Kernel& a, const Kernel& b) const {
    RowMap in_a = row_map(a), in_b = row_map(b);
    std::vector<std::vector<RowPair>> named;  // for each shared access
    bool depends = false;
    for (size_t s = 0; s < b.stages.size(); ++s) {
      for (const Access& load : b.stages[s].contraction.pieces[0].loads) {
        auto made = in_a.dimensions.find(load.tensor);
        bool hidden = made == in_a.dimensions.end() &&
                      in_a.dimensions.contains(storage_of(program_, load.tensor));
        if (hidden) return std::nullopt;  // another shape of a result
        if (made == in_a.dimensions.end()) continue;
        depends = true;
        named.push_back(pairs(made->second, row_indices(load, in_b.iterators[s])));
      }
    }
    if (!depends) named = shared_reads(a, in_a, b, in_b);
    if (named.empty()) return std::nullopt;
    std::vector<RowPair> common;
    for (const RowPair& p : named[0]) {
      bool everywhere = std::all_of(named.begin(), named.end(), [&](const auto& list) {
        return std::any_of(list.begin(), list.end(), [&](const RowPair& q) {
          return p.first == q.first && p.second == q.second;
        });
      });
      bool used = std::any_of(common.begin(), common.end(), [&](const RowPair& q) {
        return p.first == q.first || p.second == q.second;
      });
      if (everywhere && !used) common.push_back(p);
    }
    return common;
  }
  static std::vector<RowPair> pairs(const std::vector<RowId>& a, const std::vector<RowId>& b) {
    std::vector<RowPair> list;
    for (size_t d = 0; d < a.size(); ++d) {
      if (a[d].valid() && b[d].valid()) list.push_back({a[d], b[d]});
    }
    return list;
  }
  // The largest tensor that both read, at its first reads.
  std::vector<std::vector<RowPair>> shared_reads(const Kernel& a, const RowMap& in_a,
                                                 const Kernel& b, const RowMap& in_b) const {
    std::vector<std::vector<RowPair>> named;
    int64_t most = 1;
    for (size_t s = 0; s < a.stages.size(); ++s) {
      for (const Access& x : a.stages[s].contraction.pieces[0].loads) {
        int64_t size = element_count(a.tensors[x.tensor].shape);
        for (size_t t = 0; t < b.stages.size() && size > most; ++t) {
          for (const Access& y : b.stages[t].contraction.pieces[0].loads) {
            if (x.tensor != y.tensor || size <= most) continue;
            most = size;
            named = {pairs(row_indices(x, in_a.iterators[s]), row_indices(y, in_b.iterators[t]))};
          }
        }
      }
    }
    return named;
  }

  static IdVector<RowId, IteratorId> chosen(const IdVector<RowId, IteratorId>& rows,
                                            const std::vector<RowPair>& pairs, bool first) {
    IdVector<RowId, IteratorId> list;
    for (const RowPair& p : pairs) list.push_back(rows[first ? p.first : p.second]);
    return list;
  }

  // A default is copied whole, before its stage begins: the same kernel cannot make it row by row.
  bool fills_from(const Kernel& filled, const Kernel& maker) const {
    return std::any_of(filled.stages.begin(), filled.stages.end(), [&](const KernelStage& s) {
      if (!s.contraction.fill) return false;
      TensorId from = storage_of(program_, *s.contraction.fill);
      return std::any_of(maker.stages.begin(), maker.stages.end(), [&](const KernelStage& m) {
        return contains(m.contraction.outputs, from);
      });
    });
  }

  const BoundProgram& program_;
};

}  // namespace

std::optional<Kernel> merged_rows(const Kernel& first, const Kernel& second,
                                  const BoundProgram& program) {
  return RowMerge(program).merged(first, second);
}

}  // namespace tile
