#include "core/ir/analysis/uses.h"

#include <algorithm>
#include <set>

#include "core/support/control.h"

namespace tile {

bool contains(const std::vector<TensorId>& list, TensorId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

namespace {

void add_once(std::vector<TensorId>& list, TensorId id) {
  if (!contains(list, id)) list.push_back(id);
}

constexpr size_t kFew = 16;  // tensors of a list that is searched from its beginning

struct Reads {
  std::vector<TensorId> operator()(const Contraction& c) const {
    std::vector<TensorId> list;
    list.reserve(c.pieces.empty() ? 1 : std::min(c.pieces[0].loads.size() + 1, kFew));
    std::set<TensorId> known;  // a sum assembled of many pieces reads hundreds
    auto add = [&](TensorId id) {
      bool is_new = list.size() < kFew ? !contains(list, id) : known.insert(id).second;
      if (!is_new) return;
      list.push_back(id);
      if (list.size() == kFew) known.insert(list.begin(), list.end());
    };
    for (const Piece& piece : c.pieces) {
      for (const Access& a : piece.loads) add(a.tensor);
    }
    if (c.fill) add(*c.fill);
    return list;
  }
  std::vector<TensorId> operator()(const Sort& s) const { return {s.source}; }
  std::vector<TensorId> operator()(const Scatter& s) const { return {s.updates, s.indices}; }
  std::vector<TensorId> operator()(const BoundRepeat& r) const {
    std::vector<TensorId> list;
    for (TensorId id : r.operands) add_once(list, id);
    return list;
  }
};
struct Writes {
  std::vector<TensorId> operator()(const Contraction& c) const { return c.outputs; }
  std::vector<TensorId> operator()(const Sort& s) const { return {s.result}; }
  std::vector<TensorId> operator()(const Scatter& s) const { return {s.result}; }
  std::vector<TensorId> operator()(const BoundRepeat& r) const { return {r.result}; }
};

}  // namespace

std::vector<TensorId> read_by(const BoundStatement& statement) {
  checkpoint();
  return std::visit(Reads{}, statement);
}
std::vector<TensorId> read_by(const Contraction& contraction) {
  checkpoint();
  return Reads{}(contraction);
}
std::vector<TensorId> written_by(const BoundStatement& statement) {
  checkpoint();
  return std::visit(Writes{}, statement);
}

TensorId storage_of(const BoundProgram& program, TensorId id) {
  while (program.tensors[id].view_of) {
    id = *program.tensors[id].view_of;
  }
  return id;
}

double point_count(const Piece& piece) {
  double points = 1;
  for (int64_t extent : piece.box) points *= static_cast<double>(extent);
  return points;
}

}  // namespace tile
