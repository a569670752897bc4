// Temporaries of tuples become one array for each component, whose neighbours in memory are
// neighbours in the picture. Components that fit one 64-bit word together stay packed.
#include <algorithm>
#include <map>

#include "core/ir/analysis/uses.h"
#include "core/passes/normalize/normalize.h"

namespace tile {
namespace {

constexpr int64_t kMostComponents = 32;
constexpr int64_t kPackedBytes = 8;
constexpr size_t kPackedElement = 2;  // bytes

class Splitter {
 public:
  explicit Splitter(BoundProgram& program) : program_(program) {
    for (TensorId id : program.tensors.ids()) {
      if (may_split(program.tensors[id])) apart_[id] = {};
    }
    for (TensorId id : program.outputs) apart_.erase(id);
    for (const BoundTensor& t : program.tensors) {
      if (t.view_of) apart_.erase(*t.view_of);
    }
    for (const BoundStatement& s : program.statements) keep_unless_named(s);
  }

  void run() {
    for (auto& [id, components] : apart_) make_components(id, components);
    for (BoundStatement& statement : program_.statements) {
      Contraction* c = std::get_if<Contraction>(&statement);
      if (c == nullptr) continue;
      if (c->pieces.empty()) name_outputs(*c);
      for (Piece& piece : c->pieces) {
        for (Access& a : piece.loads) rename(a);
        for (size_t o = 0; o < piece.stores.size(); ++o) {
          rename(piece.stores[o]);
          c->outputs[o] = piece.stores[o].tensor;
        }
      }
    }
  }

 private:
  static bool may_split(const BoundTensor& t) {
    if (t.role != TensorRole::temporary || t.view_of || t.constant || t.shape.size() < 2) {
      return false;
    }
    int64_t count = t.shape.back();
    auto size = static_cast<int64_t>(byte_size(t.type));
    bool packed = byte_size(t.type) <= kPackedElement && count * size <= kPackedBytes;
    return count > 1 && count <= kMostComponents && !packed;
  }

  // Every access names its component by a number, and one statement makes all components.
  void keep_unless_named(const BoundStatement& statement) {
    const Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr) {
      for (TensorId id : read_by(statement)) apart_.erase(id);
      for (TensorId id : written_by(statement)) apart_.erase(id);
      return;
    }
    if (c->fill) {
      apart_.erase(*c->fill);
      for (TensorId id : c->outputs) apart_.erase(id);
    }
    for (const Piece& piece : c->pieces) {
      for (const auto* list : {&piece.stores, &piece.loads}) {
        for (const Access& a : *list) {
          if (!component(a)) apart_.erase(a.tensor);
        }
      }
    }
    for (TensorId id : c->outputs) {
      const Shape& shape = program_.tensors[id].shape;
      auto made = std::count(c->outputs.begin(), c->outputs.end(), id);
      if (shape.empty() || made != shape.back()) apart_.erase(id);
    }
  }
  std::optional<size_t> component(const Access& a) const {
    if (a.index.empty()) return std::nullopt;
    const Index& last = a.index.back();
    int64_t count = program_.tensors[a.tensor].shape.back();
    bool number = last.value < 0 && last.affine.is_constant() && last.affine.is_integral();
    if (!number) return std::nullopt;
    int64_t at = last.affine.constant.num();
    return at >= 0 && at < count ? std::optional(static_cast<size_t>(at)) : std::nullopt;
  }

  void make_components(TensorId id, std::vector<TensorId>& components) {
    BoundTensor part = program_.tensors[id];
    auto count = static_cast<size_t>(part.shape.back());
    std::string name = part.name;
    part.shape.pop_back();
    for (size_t i = 0; i < count; ++i) {
      part.name = fresh_name(name + "_" + std::to_string(i));
      components.push_back(program_.tensors.add(part));
    }
  }
  std::string fresh_name(std::string name) const {
    auto taken = [&](const BoundTensor& t) { return t.name == name; };
    while (std::any_of(program_.tensors.begin(), program_.tensors.end(), taken)) name += "_";
    return name;
  }
  // Of a statement without points, whose stores would name the components.
  void name_outputs(Contraction& c) const {
    std::map<TensorId, size_t> seen;
    for (TensorId& id : c.outputs) {
      auto it = apart_.find(id);
      if (it != apart_.end()) id = it->second[seen[id]++];
    }
  }
  void rename(Access& a) const {
    auto it = apart_.find(a.tensor);
    if (it == apart_.end()) return;
    size_t at = *component(a);
    a.tensor = it->second[at];
    a.index.pop_back();
  }

  BoundProgram& program_;
  std::map<TensorId, std::vector<TensorId>> apart_;
};

}  // namespace

void split_tuples(BoundProgram& program, const Target&) { Splitter(program).run(); }

}  // namespace tile
