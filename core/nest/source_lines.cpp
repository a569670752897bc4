#include "core/nest/source_lines.h"

#include <algorithm>

namespace tile::nest {
namespace {

void add_lines(const SourceLines& of, const Body& body, std::vector<unsigned>& lines) {
  for (const Node& node : body.nodes) {
    lines.push_back(of.line_of(place_of(body, node)));
    if (node.kind == NodeKind::fold) add_lines(of, *node.region, lines);
  }
}

void add_lines(const SourceLines& of, const Block& block, std::vector<unsigned>& lines) {
  for (const Statement& s : block) {
    lines.push_back(of.line_of(s.span));
    if (const For* f = std::get_if<For>(&s.what)) {
      add_lines(of, f->body, lines);
    } else if (const If* i = std::get_if<If>(&s.what)) {
      add_lines(of, i->predicate, lines);
      add_lines(of, i->then, lines);
      add_lines(of, i->otherwise, lines);
    } else if (const Store* store = std::get_if<Store>(&s.what)) {
      add_lines(of, store->body, lines);
    }
  }
}

}  // namespace

void give_span(Block& block, Span span) {
  for (Statement& s : block) {
    if (s.span.end != 0) continue;
    s.span = span;
    if (For* f = std::get_if<For>(&s.what)) give_span(f->body, span);
    If* i = std::get_if<If>(&s.what);
    if (i == nullptr) continue;
    give_span(i->then, span);
    give_span(i->otherwise, span);
  }
}

Span place_of(const Body& body, const Node& node) {
  if (node.kind != NodeKind::operation || node.args.size() != 2) return node.span;
  Span first = body[node.args[0]].span, second = body[node.args[1]].span;
  bool between = first.begin == node.span.begin && first.end <= second.begin && second.end != 0 &&
                 second.end <= node.span.end;
  return between ? second : node.span;
}

SourceLines::SourceLines(const Source& source) : begins_{0} {
  const std::string& text = source.text;
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
    begins_.push_back(static_cast<uint32_t>(at + 1));
  }
}

unsigned SourceLines::line_of(Span span) const {
  if (span.end == 0) return 0;
  auto behind = std::upper_bound(begins_.begin(), begins_.end(), span.begin);
  return static_cast<unsigned>(behind - begins_.begin());
}

std::vector<unsigned> SourceLines::lines_of(const Block& block) const {
  std::vector<unsigned> lines;
  add_lines(*this, block, lines);
  return lines;
}

unsigned SourceLines::first_line(const Block& block) const {
  std::vector<unsigned> lines = lines_of(block);
  auto known = std::find_if(lines.begin(), lines.end(), [](unsigned line) { return line > 0; });
  return known == lines.end() ? 1 : *known;
}

std::string print_lines(const Nest& nest) {
  if (!nest.source) return "";
  std::string text = "lines of " + nest.source->name + " " + nest.name + "\n";
  for (unsigned line : SourceLines(*nest.source).lines_of(nest.body)) {
    text += std::to_string(line) + " ";
  }
  return text;
}

}  // namespace tile::nest
