// Lines of the program's text in nests whose code is to have them for a debugger.
#pragma once

#include <string>
#include <vector>

#include "core/nest/nest.h"

namespace tile::nest {

// Gives the statements that have no span yet this one, and those inside them. What is inside of one
// that has a span has spans, too.
void give_span(Block& block, Span span);

// Where a node of the body is in the text: an operator between two operands stands at the second
// one, not where the first begins.
Span place_of(const Body& body, const Node& node);

// The lines of spans of one text, each found in logarithmic time.
class SourceLines {
 public:
  explicit SourceLines(const Source& source);
  // Counted from 1; 0 for an empty span.
  unsigned line_of(Span span) const;
  // Of every statement and of every node of its bodies, in the order of the nest.
  std::vector<unsigned> lines_of(const Block& block) const;
  // Of the first statement that has one; 1 where none has.
  unsigned first_line(const Block& block) const;

 private:
  std::vector<uint32_t> begins_;  // of the lines
};

// What code that has lines depends on beside print(nest); empty where it has none.
std::string print_lines(const Nest& nest);

}  // namespace tile::nest
