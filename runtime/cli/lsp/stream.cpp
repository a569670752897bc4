// The base protocol: headers and bytes.
#include <algorithm>
#include <charconv>

#include "runtime/cli/lsp/server.h"

namespace tile::lsp {
namespace {

constexpr size_t kMostHeaderBytes = 4096;  // of one line; the protocol's two have some dozens

// A line up to its end, without "\r\n"; nullopt at the end of the stream and for a longer one.
std::optional<std::string> header_line(std::istream& in) {
  std::string line;
  for (int c = in.get(); c != std::istream::traits_type::eof(); c = in.get()) {
    if (c == '\n') {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return line;
    }
    if (line.size() == kMostHeaderBytes) return std::nullopt;
    line += static_cast<char>(c);
  }
  return std::nullopt;
}

// The value of "Content-Length: N", in whatever case.
std::optional<size_t> content_length(const std::string& line) {
  constexpr std::string_view kName = "content-length:";
  if (line.size() < kName.size()) return std::nullopt;
  bool same = std::equal(kName.begin(), kName.end(), line.begin(), [](char a, char b) {
    return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
  });
  if (!same) return std::nullopt;
  size_t begin = std::min(line.find_first_not_of(" \t", kName.size()), line.size());
  size_t end = std::min(line.find_last_not_of(" \t") + 1, line.size());
  size_t length = 0;
  auto [stop, error] =
      std::from_chars(line.data() + begin, line.data() + std::max(begin, end), length);
  bool whole = error == std::errc() && stop == line.data() + end;
  return whole ? std::optional(length) : std::nullopt;
}

}  // namespace

std::optional<std::string> read_message(std::istream& in) {
  std::optional<size_t> length;
  for (std::optional<std::string> line = header_line(in);; line = header_line(in)) {
    if (!line) return std::nullopt;
    if (line->empty() && length) break;
    if (line->empty()) return std::nullopt;
    if (std::optional<size_t> found = content_length(*line)) length = found;
  }
  if (*length > kMostMessageBytes) {
    // What is not taken is passed over, so that the next message is found.
    in.ignore(static_cast<std::streamsize>(std::min(*length, size_t{1} << 40)));
    return in ? std::optional<std::string>("") : std::nullopt;
  }
  std::string message(*length, '\0');
  in.read(message.data(), static_cast<std::streamsize>(*length));
  bool whole = static_cast<size_t>(in.gcount()) == *length;
  return whole ? std::optional(std::move(message)) : std::nullopt;
}

void write_message(std::ostream& out, const Json& message) {
  // Texts may hold bytes that are no UTF-8.
  std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  out << "Content-Length: " << text.size() << "\r\n\r\n" << text << std::flush;
}

int serve(std::istream& in, std::ostream& out) {
  Server server;
  while (!server.exit_status()) {
    std::optional<std::string> message = read_message(in);
    if (!message) return 1;  // the client is gone, or does not speak the protocol
    for (const Json& answer : server.receive(*message)) write_message(out, answer);
    if (!out) return 1;
  }
  return *server.exit_status();
}

}  // namespace tile::lsp
