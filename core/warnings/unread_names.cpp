// Values that an MFG program names by `let` and never reads. They are gone from the Program, so the
// text is looked at again.
#include <algorithm>
#include <map>

#include "core/language/mfg/syntax.h"
#include "core/warnings/checks.h"
#include "core/warnings/texts.h"

namespace tile::warnings {
namespace {

using mfg::BlockSyntax;
using mfg::DeclarationKind;
using mfg::DeclarationSyntax;
using mfg::NameSyntax;
using mfg::ParameterSyntax;
using mfg::ProgramSyntax;
using mfg::StatementSyntax;
using mfg::Syntax;
using mfg::SyntaxKind;

// The part of the text in which a name means one thing. Regions of one name lie inside one another
// or apart, as blocks do.
struct Region {
  uint32_t begin = 0, end = 0;
  const StatementSyntax* let = nullptr;  // null: another definition, which hides those around it
  int around = -1;                       // the innermost region of the name around this one
};
using Regions = std::vector<Region>;  // of one name, by where they begin

void find_regions_around(Regions& regions) {
  std::sort(regions.begin(), regions.end(),
            [](const Region& a, const Region& b) { return a.begin < b.begin; });
  std::vector<int> open;
  for (size_t i = 0; i < regions.size(); ++i) {
    while (!open.empty() && regions[static_cast<size_t>(open.back())].end <= regions[i].begin) {
      open.pop_back();
    }
    if (!open.empty()) regions[i].around = open.back();
    open.push_back(static_cast<int>(i));
  }
}

// The innermost region at a place of the text; null: there is none. As many steps as blocks nest.
const Region* region_at(const Regions& regions, uint32_t place) {
  auto after = std::upper_bound(regions.begin(), regions.end(), place,
                                [](uint32_t at, const Region& r) { return at < r.begin; });
  int i = static_cast<int>(after - regions.begin()) - 1;
  while (i >= 0 && regions[static_cast<size_t>(i)].end <= place) {
    i = regions[static_cast<size_t>(i)].around;
  }
  return i < 0 ? nullptr : &regions[static_cast<size_t>(i)];
}

class Lets {
 public:
  explicit Lets(const ProgramSyntax& syntax) {
    constexpr uint32_t kEndOfText = ~uint32_t{0};
    for (const DeclarationSyntax& d : syntax.declarations) {
      if (d.kind == DeclarationKind::let) declare(d.statement, kEndOfText);
    }
    for (const BlockSyntax& block : syntax.blocks) {
      for (const ParameterSyntax& p : block.parameters) {
        regions_[p.name.text].push_back({block.span.begin, block.span.end, nullptr});
      }
      for (const StatementSyntax& s : block.statements) declare(s, block.span.end);
    }
    for (auto& [name, regions] : regions_) find_regions_around(regions);
    for (const Syntax& node : syntax.nodes) read(node);
  }

  void warn_of_unread(Warnings& list) const {
    for (const StatementSyntax* let : lets_) {
      if (read_.at(let)) continue;
      std::string names;
      for (const NameSyntax& name : let->names) {
        if (name.text != "_") names += (names.empty() ? "" : ", ") + std::string(name.text);
      }
      if (names.empty()) continue;
      warn(list, Stage::parse, "unread", let->span, "nothing reads " + names,
           "take the line out, or use what it names");
    }
  }

 private:
  void declare(const StatementSyntax& s, uint32_t end) {
    if (s.kind == mfg::StatementKind::definition) {
      regions_[s.definition.name.text].push_back({s.span.end, end, nullptr});
    }
    if (s.kind != mfg::StatementKind::let) return;
    lets_.push_back(&s);
    read_[&s] = false;
    for (const NameSyntax& name : s.names) regions_[name.text].push_back({s.span.end, end, &s});
  }

  // Of a tuple's names one that is read is enough: `[b, g, r, a]` names what it leaves out, too.
  void read(const Syntax& node) {
    bool names = node.kind == SyntaxKind::name || node.kind == SyntaxKind::call ||
                 node.kind == SyntaxKind::method || node.kind == SyntaxKind::tensor_reduce ||
                 node.kind == SyntaxKind::sampler;
    auto found = names ? regions_.find(node.text) : regions_.end();
    if (found == regions_.end()) return;
    const Region* inner = region_at(found->second, node.span.begin);
    if (inner != nullptr && inner->let != nullptr) read_[inner->let] = true;
  }

  std::map<std::string_view, Regions> regions_;
  std::vector<const StatementSyntax*> lets_;
  std::map<const StatementSyntax*, bool> read_;
};

}  // namespace

void check_unread_names(const Program& program, Warnings& list) {
  std::optional<ProgramSyntax> syntax = mfg_syntax(program);
  if (syntax) Lets(*syntax).warn_of_unread(list);
}

}  // namespace tile::warnings
