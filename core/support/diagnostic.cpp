#include "core/support/diagnostic.h"

#include <algorithm>
#include <cstdio>

#include "core/support/diagnostic_json.h"
#include "core/support/utf8.h"

namespace tile {
namespace {

constexpr size_t kClip = 160;  // bytes of a source line shown around the caret

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

struct Line {
  size_t begin, end;
};
Line line_around(const std::string& text, size_t offset) {
  size_t begin = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  begin = begin == std::string::npos ? 0 : begin + 1;
  size_t end = text.find('\n', offset);
  return {begin, end == std::string::npos ? text.size() : end};
}

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text) out += (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) ? ' ' : c;
  return out;
}

// A text may not be UTF-8: bytes that are no character are escaped one by one, so that the object
// always is.
std::string escape_json(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t length = character_length(text.substr(i));
    auto u = static_cast<unsigned char>(text[i]);
    if (u == '"' || u == '\\') {
      out += '\\';
      out += text[i];
    } else if (u < 0x20 || u == 0x7f || length == 0) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", u);
      out += buffer;
    } else {
      out += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return out;
}

std::string caret_lines(const Diagnostic& diagnostic, const Source& source) {
  const std::string& text = source.text;
  size_t at = std::min<size_t>(diagnostic.span.begin, text.size());
  Line line = line_around(text, at);
  size_t from = at - line.begin > kClip / 2 ? at - kClip / 2 : line.begin;
  size_t to = std::min(line.end, from + kClip);
  std::string shown = printable(std::string_view(text).substr(from, to - from));
  std::string pad;
  for (size_t i = from; i < at; ++i) {
    if (!continues_character(text[i])) pad += ' ';
  }
  size_t stop = std::clamp<size_t>(diagnostic.span.end, at + 1, std::max(to, at + 1));
  std::string carets = "^";
  for (size_t i = at + 1; i < stop && i < text.size(); ++i) {
    if (!continues_character(text[i])) carets += '~';
  }
  std::string number = std::to_string(position_of(source, diagnostic.span.begin).line);
  std::string margin(number.size(), ' ');
  return " " + number + " | " + shown + "\n " + margin + " | " + pad + carets + "\n";
}

}  // namespace

Position position_of(const Source& source, uint32_t offset) {
  Position p;
  size_t end = std::min<size_t>(offset, source.text.size());
  for (size_t i = 0; i < end; ++i) {
    char c = source.text[i];
    if (c == '\n') {
      ++p.line;
      p.column = 1;
    } else if (!continues_character(c)) {
      ++p.column;
    }
  }
  return p;
}

std::string_view to_string(Stage stage) {
  switch (stage) {
    case Stage::parse:
      return "parse";
    case Stage::bind:
      return "bind";
    case Stage::compile:
      return "compile";
    case Stage::run:
      return "run";
  }
  return "?";
}

std::string_view to_string(Severity severity) {
  return severity == Severity::warning ? "warning" : "error";
}

std::string render(const Diagnostic& d, const Source& source) {
  Position p = position_of(source, d.span.begin);
  std::string out = source.name + ":" + std::to_string(p.line) + ":" + std::to_string(p.column) +
                    ": " + std::string(to_string(d.stage)) + " " +
                    std::string(to_string(d.severity)) + " [" + d.code + "]: " + d.message + "\n";
  out += caret_lines(d, source);
  if (!d.hint.empty()) out += " hint: " + d.hint + "\n";
  return out;
}

std::string json_of(const Diagnostic& d, std::string_view stage, std::string_view file, Position p,
                    std::string_view text) {
  auto field = [](const char* name, std::string_view value) {
    return "\"" + std::string(name) + "\":\"" + escape_json(value) + "\"";
  };
  return "{" + field("severity", to_string(d.severity)) + "," + field("stage", stage) + "," +
         field("code", d.code) + "," + field("message", d.message) + "," + field("hint", d.hint) +
         "," + field("file", file) + ",\"line\":" + std::to_string(p.line) +
         ",\"column\":" + std::to_string(p.column) + "," + field("text", text) + "}";
}

std::string render_json(const Diagnostic& d, const Source& source) {
  return json_of(d, to_string(d.stage), source.name, position_of(source, d.span.begin),
                 render(d, source));
}

void fail(Stage stage, std::string code, Span span, std::string message, std::string hint) {
  throw Failure({stage, std::move(code), std::move(message), std::move(hint), span});
}

}  // namespace tile
