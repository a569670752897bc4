#include "bench/measure/workload.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "core/autodiff/differentiate.h"
#include "runtime/cli/files.h"
#include "runtime/cli/tensor_file.h"

namespace tile::bench {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void wrong(const Source& source, const std::string& what) {
  fail(Stage::run, "file", {}, source.name + ": " + what);
}

std::pair<std::string, std::string> split(const Source& source, const std::string& word) {
  size_t at = word.find('=');
  if (at == std::string::npos || at == 0) wrong(source, "\"" + word + "\" is not NAME=VALUE");
  return {word.substr(0, at), word.substr(at + 1)};
}

// The program that a header names: beside it as in the source tree, or as installed.
SourcePtr named_program(const Source& header, const std::string& path) {
  fs::path folder = fs::path(header.name).parent_path(), named(path);
  std::error_code error;
  for (const fs::path& at : {folder / named, folder / "../../filters" / named.filename()}) {
    if (!fs::exists(at, error)) continue;
    std::string name = at.lexically_normal().string();
    return std::make_shared<Source>(Source{name, cli::read_text(name)});
  }
  wrong(header, "there is no program " + path);
}

class HeaderReader {
 public:
  HeaderReader(SourcePtr source, Language language) {
    workload_->source = header_ = std::move(source);
    workload_->language = language;
  }

  std::vector<Case> read() {
    std::istringstream lines(header_->text);
    for (std::string line; std::getline(lines, line);) {
      // MFG's comments start with #.
      if (line.rfind("//:", 0) == 0) header(line.substr(3));
      if (line.rfind("#:", 0) == 0) header(line.substr(2));
    }
    if (workload_->kind.empty()) wrong(*header_, "the header has no kind");
    if (cases_.empty()) wrong(*header_, "the header has no case");
    return std::move(cases_);
  }

 private:
  void header(const std::string& text) {
    std::istringstream words(text);
    std::string key, value;
    words >> key >> value;
    if (key == "peer" || key == "prepare") return python(key, value, words);
    std::vector<std::string> rest;
    for (std::string word; words >> word;) rest.push_back(word);
    if (key == "kind") {
      workload_->kind = value;
      for (const std::string& word : rest) {
        auto [name, number] = split(*header_, word);
        workload_->attributes[name] = std::stoi(number);
      }
    } else if (key == "suite" && rest.size() <= 2) {
      workload_->suite = value;
      if (!rest.empty()) workload_->target_geomean = std::stod(rest[0]);
      if (rest.size() > 1) workload_->target_worst = std::stod(rest[1]);
    } else if (key == "device" && (value == "cpu" || value == "cuda")) {
      workload_->device = value;
    } else if (key == "measure" && (value == "gflops" || value == "gbps")) {
      workload_->measure = value == "gflops" ? Measure::gflops : Measure::gbps;
    } else if (key == "precision" && parse_precision(value)) {
      workload_->precision = parse_precision(value);
    } else if (key == "program" && !value.empty()) {
      workload_->source = named_program(*header_, value);
    } else if (key == "tolerance" && !value.empty()) {
      workload_->tolerance = std::stod(value);
      if (!rest.empty()) workload_->share = std::stod(rest[0]);
    } else if (key == "gradient" && rest.size() == 1) {
      workload_->gradient_of = value;
      workload_->gradient_input = rest[0];
    } else if (key == "constant" && !value.empty()) {
      workload_->constants = rest;
      workload_->constants.push_back(value);
    } else if (key == "case" && !value.empty()) {
      Case c{value, workload_, {}};
      for (const std::string& word : rest) {
        auto [name, shape] = split(*header_, word);
        c.shapes[name] = cli::parse_shape(shape);
      }
      cases_.push_back(std::move(c));
    } else {
      wrong(*header_, "the header line \"" + text + "\" means nothing");
    }
  }

  // The rest of the line is Python, indentation included.
  void python(const std::string& key, const std::string& module, std::istringstream& words) {
    std::string text;
    words.get();
    std::getline(words, text);
    if (text.empty()) wrong(*header_, "a line \"" + key + "\" without Python");
    Workload::Peer& peer = workload_->peers[module];
    if (key == "prepare") {
      peer.prepare.push_back(text);
    } else {
      peer.expression = text;
    }
  }

  SourcePtr header_;
  std::shared_ptr<Workload> workload_ = std::make_shared<Workload>();
  std::vector<Case> cases_;
};

// Only the gradient itself: what of the forward program it does not need is dropped.
Program gradient_only(const Program& program, const Workload& workload) {
  Program derived = differentiate(program, workload.gradient_of, {workload.gradient_input});
  derived.outputs = {derived.outputs.back()};
  derived.output_spans = {derived.output_spans.back()};
  return derived;
}

}  // namespace

std::vector<Case> read_cases(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, error)) {
    if (language_of_suffix(entry.path().string())) files.push_back(entry.path().string());
  }
  if (error || files.empty()) fail(Stage::run, "file", {}, "no workloads in " + folder);
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const std::string& file : files) {
    HeaderReader reader(std::make_shared<Source>(Source{file, cli::read_text(file)}),
                        *language_of_suffix(file));
    for (Case& c : reader.read()) cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<Case> chosen(const std::vector<Case>& cases, const std::vector<std::string>& names,
                         const std::string& filter) {
  for (const std::string& name : names) {
    bool known =
        std::any_of(cases.begin(), cases.end(), [&](const Case& c) { return c.name == name; });
    if (!known) {
      fail(Stage::run, "argument", {}, "there is no benchmark " + name,
           "tile-bench list names them");
    }
  }
  std::vector<Case> list;
  for (const Case& c : cases) {
    bool named = names.empty() || std::find(names.begin(), names.end(), c.name) != names.end();
    if (named && c.name.find(filter) != std::string::npos) list.push_back(c);
  }
  return list;
}

std::string default_folder() {
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  fs::path installed = program.parent_path().parent_path() / "share/tile/workloads";
  return !error && fs::is_directory(installed) ? installed.string() : TILE_WORKLOADS;
}

Program program_of(const Case& c) {
  Program program = parse(c.workload->language, c.workload->source);
  return c.workload->gradient_of.empty() ? program : gradient_only(program, *c.workload);
}

std::shared_ptr<LoadedProgram> load(const std::shared_ptr<Engine>& engine, const Case& c) {
  return std::make_shared<LoadedProgram>(engine, std::make_shared<Program>(program_of(c)));
}

std::vector<std::string> input_names(const Program& program, const Case& c) {
  std::vector<std::string> names;
  for (TensorId id : program.inputs) {
    names.push_back(program.tensors[id].name);
  }
  if (!c.workload->gradient_of.empty()) names.back() = "seed";
  return names;
}

std::vector<InputLayout> layouts(const LoadedProgram& program, const Case& c) {
  std::vector<InputLayout> list;
  std::vector<std::string> names = input_names(program.program(), c);
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    auto it = c.shapes.find(name);
    if (const auto& value = program.defaults()[i]; it == c.shapes.end() && value) {
      list.push_back({{value->type, value->shape}, {}});
      continue;
    }
    if (it == c.shapes.end()) wrong(*c.workload->source, c.name + " gives no shape of " + name);
    list.push_back({it->second, {}});
  }
  return list;
}

}  // namespace tile::bench
