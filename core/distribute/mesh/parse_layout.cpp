// Reads the text of layouts.
#include <algorithm>
#include <set>

#include "core/distribute/mesh/layout.h"

namespace tile {
namespace {

std::string names_of(const Mesh& mesh) {
  std::string names;
  for (const MeshAxis& axis : mesh.axes) names += (names.empty() ? "" : ", ") + axis.name;
  return names;
}

class LayoutParser {
 public:
  LayoutParser(const SourcePtr& source, const Mesh& mesh) : reader_(source), mesh_(mesh) {}

  WrittenLayouts run() {
    while (!reader_.at_end()) item();
    return std::move(layouts_);
  }

 private:
  void item() {
    Word name = reader_.name("the name of a tensor, as in `A[x, *]`");
    if (reader_.accept('[')) {
      tensor(name);
    } else if (reader_.accept(':')) {
      do {
        cut(name);
      } while (reader_.accept(','));
    } else if (name.text == "auto" || name.text == "follow") {
      unnamed(name);
    } else {
      reader_.wrong("`[` and the layout of " + name.text + ", or `:` and an index to cut");
    }
  }

  // A tensor may have the word's name, too: a layout then stands behind it.
  void unnamed(const Word& word) {
    if (layouts_.unnamed != Unnamed::open) {
      fail(Stage::parse, "layout", word.span, "what tensors get that are not named is said twice",
           "`auto` or `follow` stands once in the text");
    }
    layouts_.unnamed = word.text == "auto" ? Unnamed::chosen : Unnamed::follow;
  }

  void tensor(const Word& name) {
    if (layouts_.tensors.contains(name.text)) {
      fail(Stage::parse, "layout", name.span, name.text + " has two layouts");
    }
    WrittenLayout layout;
    layout.span = name.span;
    used_.clear();
    if (!reader_.accept(']')) {
      do {
        layout.dims.push_back(dimension());
      } while (reader_.accept(','));
      reader_.expect(']', "`,` or `]`");
    }
    if (reader_.accept('+')) layout.partial = axes();
    layouts_.tensors.emplace(name.text, std::move(layout));
  }

  WrittenDim dimension() {
    WrittenDim dim;
    size_t begin = reader_.offset();
    dim.span = reader_.here();
    if (reader_.accept('*')) return dim;
    dim.axes = axes();
    dim.sizes = sizes(dim.axes);
    dim.span = {static_cast<uint32_t>(begin), last_end_};
    return dim;
  }

  void cut(const Word& tensor) {
    WrittenCut cut;
    cut.index = reader_.name("an index of the statement that computes " + tensor.text);
    reader_.expect('=', "`=` and the axes over which " + cut.index.text + " is cut");
    std::vector<WrittenCut>& others = layouts_.cuts[tensor.text];
    used_.clear();
    for (const WrittenCut& other : others) {
      used_.insert(other.axes.begin(), other.axes.end());
      if (other.index.text == cut.index.text) {
        fail(Stage::parse, "layout", cut.index.span,
             "the index " + cut.index.text + " of " + tensor.text + " is cut twice",
             "name all axes at once: " + cut.index.text + "=x.y");
      }
    }
    cut.axes = axes();
    cut.sizes = sizes(cut.axes);
    others.push_back(std::move(cut));
  }

  // "x.y": axes of the mesh, each once in the layout.
  std::vector<size_t> axes() {
    std::vector<size_t> list;
    do {
      Word name = reader_.name("`*` or an axis of the mesh (" + names_of(mesh_) + ")");
      last_end_ = name.span.end;
      std::optional<size_t> axis = mesh_.find(name.text);
      if (!axis) {
        fail(Stage::parse, "mesh", name.span, "the mesh has no axis " + name.text,
             "its axes are " + names_of(mesh_));
      }
      if (!used_.insert(*axis).second) {
        fail(Stage::parse, "layout", name.span, "the axis " + name.text + " is named twice",
             "an axis cuts one dimension of a tensor, or has its partial sums");
      }
      list.push_back(*axis);
    } while (reader_.accept('.'));
    return list;
  }

  // "(100, 28)"
  std::vector<int64_t> sizes(const std::vector<size_t>& axes) {
    std::vector<int64_t> list;
    Span where = reader_.here();
    if (!reader_.accept('(')) return list;
    size_t parts = parts_of(mesh_, axes);
    do {
      if (list.size() > parts) break;
      list.push_back(reader_.number("the size of a part").value);
    } while (reader_.accept(','));
    if (list.size() != parts) {
      std::string count = list.size() > parts ? "more" : std::to_string(list.size());
      fail(Stage::parse, "layout", where,
           "the axes have " + std::to_string(parts) + " ranks, but there are " + count + " sizes",
           "give the size of each part, or none for an even cut");
    }
    last_end_ = reader_.here().begin + 1;
    reader_.expect(')', "`,` or `)`");
    return list;
  }

  LayoutReader reader_;
  const Mesh& mesh_;
  WrittenLayouts layouts_;
  std::set<size_t> used_;  // axes, in the layout that is read
  uint32_t last_end_ = 0;  // of the dimension that is read
};

}  // namespace

WrittenLayouts parse_layouts(const SourcePtr& source, const Mesh& mesh) {
  return LayoutParser(source, mesh).run();
}

}  // namespace tile
