#include "tests/distribute/random_layouts.h"

#include <algorithm>
#include <random>
#include <vector>

namespace tile::test {
namespace {

struct Axis {
  std::string name;
  int64_t size = 1;
};

class Drawing {
 public:
  Drawing(const BoundProgram& program, uint64_t seed, bool divide)
      : program_(program), random_(seed), divide_(divide) {}

  RandomLayouts run() {
    draw_mesh();
    for (const BoundTensor& tensor : program_.tensors) {
      bool can_be_named =
          !tensor.view_of && !tensor.constant && tensor.name.find('.') == std::string::npos;
      if (can_be_named && below(10) < 6) draw_layout(tensor);
    }
    if (divide_) draw_cuts();
    return std::move(result_);
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  void draw_mesh() {
    static const std::vector<std::vector<int64_t>> kMeshes = {
        {2}, {3}, {4}, {5}, {7}, {8}, {2, 2}, {2, 3}, {3, 2}, {4, 2}, {2, 2, 2}, {1, 2}};
    const char* names[] = {"x", "y", "z"};
    const std::vector<int64_t>& sizes = kMeshes[static_cast<size_t>(below(kMeshes.size()))];
    for (size_t a = 0; a < sizes.size(); ++a) {
      axes_.push_back({names[a], sizes[a]});
      result_.mesh += (a == 0 ? "" : ", ") + axes_[a].name + "=" + std::to_string(sizes[a]);
    }
  }

  // Some axes that are not used yet, in any order.
  std::vector<Axis> draw_axes(std::vector<Axis>& free) {
    std::vector<Axis> drawn;
    while (!free.empty() && below(3) != 0) {
      auto at = free.begin() + below(static_cast<int64_t>(free.size()));
      drawn.push_back(*at);
      free.erase(at);
    }
    return drawn;
  }

  static std::string text_of(const std::vector<Axis>& axes) {
    std::string text;
    for (const Axis& axis : axes) text += (text.empty() ? "" : ".") + axis.name;
    return text;
  }

  std::string draw_dim(int64_t extent, std::vector<Axis>& free) {
    std::vector<Axis> axes = draw_axes(free);
    if (axes.empty()) return "*";
    std::string text = text_of(axes);
    if (below(3) != 0) return text;
    int64_t parts = 1;
    for (const Axis& axis : axes) parts *= axis.size;
    std::vector<int64_t> places{0, extent};
    for (int64_t p = 1; p < parts; ++p) places.push_back(below(extent + 1));
    std::sort(places.begin(), places.end());
    text += "(";
    for (int64_t p = 0; p < parts; ++p) {
      auto at = static_cast<size_t>(p);
      text += (p == 0 ? "" : ", ") + std::to_string(places[at + 1] - places[at]);
    }
    return text + ")";
  }

  void draw_layout(const BoundTensor& tensor) {
    std::vector<Axis> free = axes_;
    std::string text = tensor.name + "[";
    std::vector<std::string> dims(tensor.shape.size());
    std::vector<size_t> order(dims.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::shuffle(order.begin(), order.end(), random_);
    for (size_t d : order) {
      bool component = d + 1 == tensor.shape.size() && is_tuple(tensor);
      dims[d] = component ? "*" : draw_dim(tensor.shape[d], free);
    }
    for (size_t d = 0; d < dims.size(); ++d) text += (d == 0 ? "" : ", ") + dims[d];
    text += "]";
    bool partial = divide_ && tensor.role == TensorRole::input && tensor.type != DType::bool_ &&
                   !free.empty() && below(4) == 0;
    if (partial) {
      text += " + " + free[0].name;
      result_.owners_only = false;
    }
    result_.layouts += text + "\n";
  }

  bool is_tuple(const BoundTensor& tensor) const {
    for (const BoundStatement& statement : program_.statements) {
      const auto* c = std::get_if<Contraction>(&statement);
      bool of = c != nullptr && program_.tensors[c->outputs[0]].name == tensor.name;
      if (of && c->outputs.size() > 1) return true;
    }
    return false;
  }

  static bool data_decides(const Contraction& c) {
    for (const Piece& piece : c.pieces) {
      for (const Access& load : piece.loads) {
        for (const Index& index : load.index) {
          if (index.value >= 0 && index.boundary == Boundary::in_range) return true;
        }
      }
    }
    return false;
  }

  void draw_cuts() {
    for (const BoundStatement& statement : program_.statements) {
      const auto* c = std::get_if<Contraction>(&statement);
      if (c == nullptr || c->aggregation == Aggregation::assign || data_decides(*c)) continue;
      const std::string& name = program_.tensors[c->outputs[0]].name;
      const std::vector<std::string>& indices = c->pieces[0].iterators;
      bool usable = name.find('.') == std::string::npos && !indices.empty() && below(3) == 0;
      if (!usable) continue;
      const std::string& index = indices[static_cast<size_t>(below(indices.size()))];
      const Axis& axis = axes_[static_cast<size_t>(below(axes_.size()))];
      result_.layouts += name + ": " + index + "=" + axis.name + "\n";
      result_.owners_only = false;
    }
  }

  const BoundProgram& program_;
  std::mt19937_64 random_;
  bool divide_;
  std::vector<Axis> axes_;
  RandomLayouts result_;
};

}  // namespace

RandomLayouts random_layouts(const BoundProgram& program, uint64_t seed, bool divide) {
  return Drawing(program, seed, divide).run();
}

}  // namespace tile::test
