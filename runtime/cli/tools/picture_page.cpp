#include "runtime/cli/tools/tools.h"

namespace tile::cli {
namespace {

// RFC 4648, section 4.
std::string base64(const std::string& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      bool padding = i + k > bytes.size();
      out += padding ? '=' : kDigits[group >> (18 - 6 * k) & 63];
    }
  }
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string image(const PagePicture& picture, const char* which) {
  return std::string("<img class=\"") + which + "\" alt=\"" + escaped(picture.name) +
         "\" src=\"data:image/png;base64," + base64(picture.png) + "\">";
}

std::string figure(const std::string& images, const std::string& caption) {
  return "<figure>" + images + "<figcaption>" + escaped(caption) + "</figcaption></figure>\n";
}

// The first pair lies one over the other, with a slider; what else there is follows.
constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<style>
body { font: 14px sans-serif; margin: 2em; background: #fff; color: #222; }
figure { margin: 0 1em 1em 0; display: inline-block; vertical-align: top; }
img { image-rendering: pixelated; max-width: 100%; }
.pair { position: relative; display: inline-block; }
.pair .after { position: absolute; left: 0; top: 0; clip-path: inset(0 0 0 var(--at, 50%)); }
pre { background: #fee; padding: 1em; }
</style>
)";
constexpr std::string_view kSlider = R"(<p><label>before <input type="range" min="0" max="100"
 id="at"> after</label></p>
<script>
const at = document.getElementById("at"), pair = document.querySelector(".pair");
at.value = sessionStorage.getItem("at") || 50;
function move() { pair.style.setProperty("--at", at.value + "%"); sessionStorage.setItem("at", at.value); }
at.addEventListener("input", move);
move();
</script>
)";

}  // namespace

std::string picture_page(const std::string& title, const std::vector<PagePicture>& before,
                         const std::vector<PagePicture>& after, const std::string& note) {
  std::string out(kHead);
  out += "<title>" + escaped(title) + "</title></head><body>\n<h1>" + escaped(title) + "</h1>\n";
  if (!note.empty()) out += "<pre>" + escaped(note) + "</pre>\n";
  bool pair = !before.empty() && !after.empty();
  if (pair) {
    out += figure(
        "<span class=\"pair\">" + image(before[0], "before") + image(after[0], "after") + "</span>",
        before[0].name + " and " + after[0].name);
    out += kSlider;
  }
  for (const PagePicture& picture : before) out += figure(image(picture, "one"), picture.name);
  for (const PagePicture& picture : after) out += figure(image(picture, "one"), picture.name);
  return out + "</body></html>\n";
}

}  // namespace tile::cli
