// `tile fmt` on every program of the repository: the same program with the same comments, and
// formatted once it stays so.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "core/ir/program.h"
#include "runtime/cli/format/format.h"

namespace {

namespace fs = std::filesystem;
using tile::Language;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

tile::SourcePtr source(const std::string& text) {
  return std::make_shared<tile::Source>(tile::Source{"text", text});
}

// What the text means, printed; empty where it is no program.
std::string meaning(Language language, const std::string& text) {
  try {
    return tile::print(tile::parse(language, source(text)));
  } catch (const tile::Failure&) {
    return "";
  }
}

// The comments, found without the formatter's own lexer: white space in them does not count, as
// lines lose what they end with.
std::string comments(Language language, const std::string& text) {
  std::string found;
  bool mfg = language == Language::mfg;
  for (size_t i = 0; i < text.size(); ++i) {
    if (mfg && text[i] == '"') {
      i = std::min(text.find('"', i + 1), text.size());
      continue;
    }
    bool line = mfg ? text[i] == '#' : text.compare(i, 2, "//") == 0;
    bool block = !mfg && text.compare(i, 2, "/*") == 0;
    if (!line && !block) continue;
    size_t end = line ? text.find('\n', i) : text.find("*/", i + 2) + 2;
    end = std::min(end, text.size());
    for (; i < end; ++i) {
      if (std::string_view(" \t\r\n").find(text[i]) == std::string_view::npos) found += text[i];
    }
    found += '\n';
    --i;
  }
  return found;
}

struct Counts {
  int formatted = 0, refused = 0;
};

void check(const fs::path& path, Language language, const std::string& before, Counts& counts) {
  std::string after;
  try {
    after = tile::cli::formatted(language, source(before));
  } catch (const tile::Failure&) {  // no program of the grammar
    EXPECT_EQ(meaning(language, before), "") << path;
    ++counts.refused;
    return;
  } catch (const tile::InternalError& error) {
    ADD_FAILURE() << path << ": " << error.what();
    return;
  }
  ++counts.formatted;
  EXPECT_EQ(tile::cli::formatted(language, source(after)), after) << path;
  EXPECT_EQ(meaning(language, after), meaning(language, before)) << path;
  EXPECT_EQ(comments(language, after), comments(language, before)) << path;
}

std::vector<std::pair<fs::path, Language>> programs() {
  std::vector<std::pair<fs::path, Language>> list;
  for (const char* top : {"bench", "runtime", "tests", "core"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TILE_SOURCE_DIR) / top)) {
      std::optional<Language> language = tile::language_of_suffix(entry.path().string());
      if (language && entry.is_regular_file()) list.emplace_back(entry.path(), *language);
    }
  }
  std::sort(list.begin(), list.end());
  return list;
}

// The text with some pieces put in, taken out or moved: what stands between words, mostly.
std::string mutated(std::string text, std::mt19937& random) {
  constexpr auto kPieces = std::to_array<std::string_view>(
      {" ",      "\t",    "\n",   "\n\n\n", "\r\n", "/*c*/", " /* c\n  c */ ",
       "// c\n", "# c\n", "\\\n", "-",      "+",    "*",     "/",
       "<",      ">",     "|",    "&",      "=",    "!",     ".",
       ",",      ";",     ":",    "?",      "$",    " o ",   "(",
       ")",      "[",     "]",    "{",      "}",    "let ",  "in ",
       "1",      "2.",    "x",    "\"s\"",  "@",    "^",     "->",
       "..<",    "é"});
  auto place = [&] { return static_cast<size_t>(random()) % (text.size() + 1); };
  for (auto changes = 1 + random() % 4; changes > 0; --changes) {
    size_t at = place(), length = 1 + random() % 8;
    switch (random() % 4) {
      case 0:
        text.erase(std::min(at, text.size()), length);
        break;
      case 1: {
        size_t blank = text.find_first_of(" \n", at);
        if (blank != text.npos) text.erase(blank, 1);
        break;
      }
      default: {
        // Between words, where a comment may stand, or anywhere.
        size_t blank = random() % 2 == 0 ? at : text.find_first_of(" \n([{,;", at);
        text.insert(std::min(blank, text.size()), kPieces[random() % kPieces.size()]);
      }
    }
  }
  return text;
}

TEST(Format, EveryProgramOfTheRepositoryStaysTheSame) {
  Counts counts;
  for (const auto& [path, language] : programs()) check(path, language, read(path), counts);
  EXPECT_GT(counts.formatted, 150);
  EXPECT_GT(counts.refused, 0);
}

TEST(Format, ChangedProgramsStayTheSame) {
  constexpr int kChanges = 12;
  constexpr size_t kLongest = 3000;  // bytes: what longer programs have, short ones have, too
  Counts counts;
  std::mt19937 random(5);
  for (const auto& [path, language] : programs()) {
    std::string text = read(path);
    for (int i = 0; i < kChanges && text.size() < kLongest; ++i) {
      std::string changed = mutated(text, random);
      SCOPED_TRACE(changed);
      check(path, language, changed, counts);
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(counts.formatted, 500);
  EXPECT_GT(counts.refused, 500);
}

// Words that are another one without what stands between them.
TEST(Format, WordsStayApart) {
  for (const char* text :
       {"def t |x, y| {3 \\\n\n}", "def t |x, y| {3 \\\n\n\n\n}", "def t |x| {[1, 2. 3].y}",
        "def t |x| {[1, 2 .3].y}", "def t |x| {f([0. 0, 0])}"}) {
    Counts counts;
    check("mfg", Language::mfg, text, counts);
    EXPECT_EQ(counts.formatted + counts.refused, 1) << text;
  }
}

// Ends of blocks on lines of their own stand below where their blocks begin.
TEST(Format, BlocksInBlocks) {
  const std::string text =
      "@bounds(4, 4)\n"
      "def t |x, y| {\n"
      "  let s = rsum(0..<3) |i| {\n"
      "    rsum(0..<3) |j| {\n"
      "      i + j\n"
      "    }\n"
      "  }\n"
      "  f32(s)\n"
      "}\n";
  EXPECT_EQ(tile::cli::formatted(Language::mfg, source(text)), text);
}

// Every prefix of a program is a program or is refused, and so is the program with a byte replaced.
TEST(Format, WhateverTheTextIs) {
  const std::string texts[] = {
      "function (A[M], B) -> (O) { // c\n O[i: M] = +(A[i] ? -1 : B); /* d */ }",
      "let a = f(x, y=1) # c\ndef g |x: i32, y| {\n [*a.xy*2 \\\n -1, b|c] }\n",
      "val f = fun(ArrayType(Float, N), A => // c\n Map(x => x ? 1 : -2.f) o g $ A)"};
  const Language languages[] = {Language::tile, Language::mfg, Language::lift};
  for (size_t k = 0; k < 3; ++k) {
    for (size_t i = 0; i <= texts[k].size(); ++i) {
      for (char by : std::string_view("\n \"(|#/=\\}")) {
        std::string text = by == '\n' ? texts[k].substr(0, i) : texts[k];
        if (by != '\n' && i < text.size()) text[i] = by;
        try {
          std::string once = tile::cli::formatted(languages[k], source(text));
          EXPECT_EQ(tile::cli::formatted(languages[k], source(once)), once) << text;
        } catch (const tile::Failure&) {
        }
      }
    }
  }
}

}  // namespace
