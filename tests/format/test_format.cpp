// `tile fmt` on every program of the repository: the same program with the same comments, and
// formatted once it stays so.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
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

void check(const fs::path& path, Counts& counts) {
  Language language = *tile::language_of_suffix(path.string());
  std::string before = read(path), after;
  try {
    after = tile::cli::formatted(language, source(before));
  } catch (const tile::Failure&) {  // no program of the grammar
    EXPECT_EQ(meaning(language, before), "") << path;
    ++counts.refused;
    return;
  }
  ++counts.formatted;
  EXPECT_EQ(tile::cli::formatted(language, source(after)), after) << path;
  EXPECT_EQ(meaning(language, after), meaning(language, before)) << path;
  EXPECT_EQ(comments(language, after), comments(language, before)) << path;
}

TEST(Format, EveryProgramOfTheRepositoryStaysTheSame) {
  Counts counts;
  for (const char* top : {"bench", "runtime", "tests", "core"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TILE_SOURCE_DIR) / top)) {
      if (tile::language_of_suffix(entry.path().string()) && entry.is_regular_file()) {
        check(entry.path(), counts);
      }
    }
  }
  EXPECT_GT(counts.formatted, 150);
  EXPECT_GT(counts.refused, 0);
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
