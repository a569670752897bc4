// What the tests of the MFG front end share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "core/ir/program.h"
#include "core/ir/text.h"
#include "core/language/mfg/mfg.h"

namespace tile::test {

inline SourcePtr mfg_source(std::string text) {
  return std::make_shared<const Source>(Source{"test.mfg", std::move(text)});
}
inline Program parse_mfg_text(const std::string& text) { return parse_mfg(mfg_source(text)); }

// A program of one pixel whose block is `lines`.
inline std::string mfg_pixel(const std::string& lines) {
  return "@bounds(1, 1)\ndef t |x, y| {\n" + lines + "\n}\n";
}

// The diagnostic of a text that must fail; nullopt if it parses.
inline std::optional<Diagnostic> mfg_failure(const std::string& text) {
  try {
    parse_mfg_text(text);
  } catch (const Failure& failure) {
    return failure.diagnostic();
  }
  return std::nullopt;
}

// "line:column code: message" of the error; "parses" where there is none.
inline std::string mfg_error(const std::string& text) {
  std::optional<Diagnostic> d = mfg_failure(text);
  if (!d) return "parses";
  if (d->stage != Stage::parse) return "stage " + std::string(to_string(d->stage));
  Position p = position_of(*mfg_source(text), d->span.begin);
  return std::to_string(p.line) + ":" + std::to_string(p.column) + " " + d->code + ": " +
         d->message;
}

// The body of the tensor `name`, as text.
inline std::string mfg_body(const std::string& text, const std::string& name = "t") {
  Program program = parse_mfg_text(text);
  for (const Statement& s : program.statements) {
    const auto* c = std::get_if<SymbolicContraction>(&s.what);
    if (c != nullptr && program.tensors[s.result].name == name) {
      return print(c->body);
    }
  }
  return "no such tensor";
}

}  // namespace tile::test
