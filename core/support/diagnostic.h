// Errors as values that carry where they happened. A user's error is thrown as a Failure by
// whatever part of the compiler finds it and is caught once, at the runtime's boundary; nothing in
// the core prints or aborts.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

namespace tile {

// A half-open range of bytes in a source text. An empty span at 0 stands for the whole text.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
};

// A program text and the name that errors give it (a file name, or "<text>").
struct Source {
  std::string name;
  std::string text;
};
using SourcePtr = std::shared_ptr<const Source>;

// Line and column, both counted from 1; columns count characters of UTF-8.
struct Position {
  int line = 1;
  int column = 1;
};
Position position_of(const Source& source, uint32_t offset);

// When the error is found (core/language/tile/REFERENCE.md, section 8).
enum class Stage : uint8_t { parse, bind, compile, run };
std::string_view to_string(Stage stage);

// A warning's program is valid, but surely not what was meant.
enum class Severity : uint8_t { error, warning };
std::string_view to_string(Severity severity);

struct Diagnostic {
  Stage stage = Stage::parse;
  std::string code;     // a stable machine-readable word: "syntax", "rank", "unbounded", "limit" …
  std::string message;  // what the user wrote and what was expected
  std::string hint;     // may be empty
  Span span;
  Severity severity = Severity::error;
};

// "file:line:column: stage error [code]: message" (or "stage warning"), the source line, a caret
// line, and the hint. Source lines are clipped around the caret so that the text stays short for
// any input.
std::string render(const Diagnostic& diagnostic, const Source& source);
// One JSON object on one line: severity, stage, code, message, hint, file, line, column, text (as
// rendered).
std::string render_json(const Diagnostic& diagnostic, const Source& source);

// The one exception for users' errors.
class Failure : public std::exception {
 public:
  explicit Failure(Diagnostic diagnostic) : diagnostic_(std::move(diagnostic)) {}
  const char* what() const noexcept override { return diagnostic_.message.c_str(); }
  const Diagnostic& diagnostic() const { return diagnostic_; }

 private:
  Diagnostic diagnostic_;
};

[[noreturn]] void fail(Stage stage, std::string code, Span span, std::string message,
                       std::string hint = "");

// A broken invariant of our own: reported as an internal error, never as the user's fault.
class InternalError : public std::exception {
 public:
  explicit InternalError(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};
inline void internal_check(bool condition, const char* what) {
  if (!condition) throw InternalError(what);
}

}  // namespace tile
