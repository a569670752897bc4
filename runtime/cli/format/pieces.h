// What a formatter sees of a program text: its tokens and its comments, in order.
#pragma once

#include <string_view>
#include <vector>

#include "core/language/language.h"

namespace tile::cli {

enum class PieceKind : uint8_t {
  word,           // names, numbers, strings
  symbol,         // operators and brackets
  line_comment,   // to the end of the line, without the white space there
  block_comment,  // as it stands, line ends included
  escape,         // MFG's backslash that joins a line with the next one
};

struct Piece {
  PieceKind kind = PieceKind::word;
  std::string_view text;
  int newlines = 0;  // line ends in front, after the piece before
  int blanks = 0;    // other white space in front, behind the last of these line ends
  // The first piece of a statement or declaration, or a comment in front of one.
  bool begins_statement = false;

  bool is(std::string_view symbol) const { return kind == PieceKind::symbol && text == symbol; }
  bool is_comment() const {
    return kind == PieceKind::line_comment || kind == PieceKind::block_comment;
  }
};

// The pieces of `text`, which must outlive them. Throws Failure of stage parse where the language's
// lexer does.
std::vector<Piece> pieces_of(Language language, std::string_view text);

}  // namespace tile::cli
