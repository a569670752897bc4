// Where the outputs of a run go: arrays, pictures with their ranges, standard output.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <sstream>

#include "runtime/cli/arguments.h"
#include "runtime/cli/files.h"
#include "runtime/cli/filter_picture.h"
#include "runtime/cli/run.h"
#include "runtime/cli/tensor_file.h"

namespace tile::cli {
namespace {

// "LOW:HIGH" or "auto"; the ends differ.
PictureRange parse_range(const std::string& text) {
  if (text == "auto") return {.automatic = true};
  PictureRange range{.given = true};
  std::istringstream numbers(text);
  char colon = 0;
  numbers >> range.low >> colon >> range.high;
  bool good = numbers && colon == ':' && numbers.peek() == std::istringstream::traits_type::eof();
  good = good && std::isfinite(range.low) && std::isfinite(range.high) && range.low != range.high;
  if (!good) {
    fail(Stage::run, "argument", {}, "\"" + text + "\" is not a range of values",
         "LOW:HIGH such as 0:255 or -1:1, or auto");
  }
  return range;
}

// The range for each output's picture; the one without a name is for all others.
PictureRange range_for(const std::string& name, const RunArguments& arguments) {
  PictureRange found;
  for (const std::string& text : arguments.ranges) {
    size_t at = text.find('=');
    if (at == std::string::npos && !found.named) found = parse_range(text);
    if (at == std::string::npos || text.substr(0, at) != name) continue;
    found = parse_range(text.substr(at + 1));
    found.named = true;
  }
  return found;
}

// Of an output's own range, or of the one for all others.
void check_ranges(const LoadedProgram& program, const RunArguments& arguments) {
  std::map<std::string, std::string> wanted = named(arguments.out);
  bool pictures = std::any_of(wanted.begin(), wanted.end(),
                              [](const auto& output) { return is_picture(output.second); });
  for (const std::string& text : arguments.ranges) {
    size_t at = text.find('=');
    bool all = at == std::string::npos;
    parse_range(all ? text : text.substr(at + 1));
    auto own = all ? wanted.end() : wanted.find(text.substr(0, at));
    if (!all && own == wanted.end()) {
      unknown_name("output with --out", text.substr(0, at), output_names(program));
    }
    if (all ? pictures : is_picture(own->second)) continue;
    std::string where = all ? "no output goes to one" : own->first + " goes to " + own->second;
    fail(Stage::run, "argument", {}, "--range is of pictures, and " + where,
         "it applies to .png, .jpg and .jpeg files");
  }
}

// A range that nobody chose may not be that of the values.
void warn_of_values_cut_off(const HostTensor& picture, const PictureRange& range,
                            const std::string& name) {
  constexpr double kMost = 0.1;  // a few bright and dark spots are usual
  double part = range.given ? 0 : cut_off(picture, range);
  if (part <= kMost) return;
  char text[256];
  std::snprintf(
      text, sizeof text,
      "warning: %.0f %% of the values of %s lie outside 0 to 1, the black and white of its "
      "picture: --range 0:255 or --range auto sets others\n",
      100 * part, name.c_str());
  std::cerr << text;
}

// Bytes of 0 and 1 are black: numbers from 0 to 1 were converted, not colours.
void warn_of_black(const HostTensor& picture, const PictureRange& range, const std::string& name) {
  if (range.given || range.automatic || picture.type != DType::u8) return;
  int64_t channels = picture.shape.size() == 3 ? picture.shape[2] : 1;
  bool alpha = channels % 2 == 0;
  for (int64_t i = 0; i < picture.count(); ++i) {
    bool colour = !alpha || i % channels < channels - 1;
    if (colour && picture.at(i).i > 1) return;
  }
  std::cerr << "warning: all colours of " << name
            << " are 0 or 1 of 255, so that its picture is black: --range 0:1 shows them, and of "
               "numbers from 0 to 1 a filter makes bytes by to_u8color\n";
}

constexpr std::string_view kText = "-";

// Then each text has the name of its output above it.
bool has_several_texts(const RunArguments& arguments) {
  std::map<std::string, std::string> wanted = named(arguments.out);
  return 1 < std::count_if(wanted.begin(), wanted.end(),
                           [](const auto& output) { return output.second == kText; });
}

}  // namespace

void check_outputs(const LoadedProgram& program, const RunArguments& arguments) {
  for (const auto& [name, target] : named(arguments.out)) {
    require_writable(target);
    // Of ranks that are processes one alone may have the folder.
    bool here = arguments.mesh.transport.empty();
    if (target != kText && here) require_place(target);
  }
  check_ranges(program, arguments);
}

void check_output_shape(const std::string& name, const Shape& shape,
                        const RunArguments& arguments) {
  std::map<std::string, std::string> wanted = named(arguments.out);
  auto target = wanted.find(name);
  if (target == wanted.end() || !is_picture(target->second)) return;
  require_picture_shape(target->second, shape);
}

std::vector<WrittenOutput> written_outputs(const LoadedProgram& program,
                                           const RunArguments& arguments) {
  std::vector<std::string> names = output_names(program);
  std::vector<WrittenOutput> list;
  for (const std::string& pair : arguments.out) {
    size_t at = pair.find('=');
    std::string name = pair.substr(0, at);
    auto found = std::find(names.begin(), names.end(), name);
    list.push_back({static_cast<size_t>(found - names.begin()), name, pair.substr(at + 1)});
  }
  return list;
}

void write_outputs(const Ran& ran, const RunArguments& arguments, const Options& options) {
  for (const WrittenOutput& o : written_outputs(*ran.program, arguments)) {
    write_output(ran.outputs[o.output], o.name, o.target, arguments, options);
  }
}

void write_output(const HostTensor& tensor, const std::string& name, const std::string& target,
                  const RunArguments& arguments, const Options& options) {
  if (is_picture(target)) {
    PictureRange range = range_for(name, arguments);
    HostTensor picture = picture_of_output(tensor, name);
    write_picture(target, picture, range);
    if (options.warnings) warn_of_values_cut_off(picture, range, name);
    if (options.warnings) warn_of_black(picture, range, name);
  } else {
    if (target == kText && has_several_texts(arguments)) std::cout << name << ":\n";
    write_tensor(target, tensor);
  }
}

}  // namespace tile::cli
