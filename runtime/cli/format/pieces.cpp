#include "runtime/cli/format/pieces.h"

#include <algorithm>

#include "core/language/lift/token.h"
#include "core/language/mfg/token.h"
#include "core/language/tile/token.h"

namespace tile::cli {
namespace {

// A token of any of the languages.
struct Word {
  Span span;
  bool symbol = false;
  bool begins_statement = false;
};

std::vector<Word> words_of_tile(std::string_view text) {
  std::vector<Word> words;
  bool begins = true;
  for (const Token& token : tokenize(text)) {
    words.push_back({token.span, token.kind == TokenKind::punctuation, begins});
    begins = token.is(";") || token.is("{") || token.is("}");
  }
  return words;
}

std::vector<Word> words_of_mfg(std::string_view text) {
  std::vector<Word> words;
  bool begins = true;
  for (const mfg::Token& token : mfg::tokenize(text)) {
    if (token.kind == mfg::TokenKind::newline) {
      begins = true;
      continue;
    }
    words.push_back({token.span, token.kind == mfg::TokenKind::punctuation, begins});
    begins = token.is("{");
  }
  return words;
}

std::vector<Word> words_of_lift(std::string_view text) {
  std::vector<Word> words;
  for (const lift::Token& token : lift::tokenize(text)) {
    bool symbol = token.kind == lift::TokenKind::punctuation;
    words.push_back({token.span, symbol, words.empty() || token.is("val")});
  }
  return words;
}

std::vector<Word> words_of(Language language, std::string_view text) {
  if (language == Language::mfg) return words_of_mfg(text);
  return language == Language::lift ? words_of_lift(text) : words_of_tile(text);
}

std::string_view without_trailing_space(std::string_view line) {
  size_t last = line.find_last_not_of(" \t\r");
  return line.substr(0, last == line.npos ? 0 : last + 1);
}

class Collector {
 public:
  Collector(Language language, std::string_view text) : mfg_(language == Language::mfg) {
    std::vector<Word> words = words_of(language, text);
    size_t from = 0;
    for (const Word& word : words) {
      gap(text.substr(from, word.span.begin - from));
      from = word.span.end;
      bool end = word.span.begin == word.span.end;
      if (end) break;
      PieceKind kind = word.symbol ? PieceKind::symbol : PieceKind::word;
      std::string_view piece = text.substr(word.span.begin, word.span.end - word.span.begin);
      add(kind, piece, word.begins_statement);
    }
  }

  // A comment stands before what follows it.
  std::vector<Piece> run() && {
    bool begins = true;
    for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
      if (piece->is_comment()) {
        piece->begins_statement = begins;
      } else {
        begins = piece->begins_statement || piece->is("}");
      }
    }
    return std::move(pieces_);
  }

 private:
  void add(PieceKind kind, std::string_view text, bool begins_statement) {
    pieces_.push_back({kind, text, newlines_, blanks_, begins_statement});
    newlines_ = blanks_ = 0;
  }

  // White space and comments between two tokens, which the lexer has seen and found to be right.
  void gap(std::string_view text) {
    while (!text.empty()) {
      size_t length = 1;
      if (text[0] == '\n') {
        ++newlines_;
        blanks_ = 0;
      } else if (text.starts_with("//") || (mfg_ && text[0] == '#')) {
        length = std::min(text.find('\n'), text.size());
        add(PieceKind::line_comment, without_trailing_space(text.substr(0, length)), false);
      } else if (text.starts_with("/*")) {
        length = text.find("*/", 2) + 2;
        add(PieceKind::block_comment, text.substr(0, length), false);
      } else if (text[0] == '\\') {
        add(PieceKind::escape, text.substr(0, 1), false);
      } else if (text[0] != '\r') {
        ++blanks_;
      }
      text.remove_prefix(length);
    }
  }

  bool mfg_;
  std::vector<Piece> pieces_;
  int newlines_ = 0, blanks_ = 0;
};

}  // namespace

std::vector<Piece> pieces_of(Language language, std::string_view text) {
  return Collector(language, text).run();
}

}  // namespace tile::cli
