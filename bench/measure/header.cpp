#include "bench/measure/header.h"

#include <filesystem>
#include <sstream>

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
    for (auto& [module, peer] : workload_->peers) {
      // What files define comes first.
      peer.prepare.insert(peer.prepare.begin(), code_[module].begin(), code_[module].end());
    }
    if (workload_->part) return {};
    if (workload_->kind.empty()) wrong(*header_, "the header has no kind");
    if (cases_.empty()) wrong(*header_, "the header has no case");
    return workload_->optimiser ? with_training() : std::move(cases_);
  }
  std::shared_ptr<const Workload> workload() const { return workload_; }

 private:
  // Each case is two: the program itself and the training step.
  std::vector<Case> with_training() {
    auto step = std::make_shared<Workload>(*workload_);
    step->suite += "_training";
    workload_->loss.clear();
    workload_->optimiser = nullptr;
    std::vector<Case> both;
    for (Case& c : cases_) {
      Case training = c;
      training.name += "_train";
      training.workload = step;
      both.push_back(std::move(c));
      both.push_back(std::move(training));
    }
    return both;
  }

  void header(const std::string& text) {
    std::istringstream words(text);
    std::string key, value;
    words >> key >> value;
    if (key == "peer" || key == "prepare") return python(key, value, words);
    std::vector<std::string> rest;
    for (std::string word; words >> word;) rest.push_back(word);
    bool known = about_program(key, value, rest) || about_measure(key, value, rest) ||
                 about_training(key, value, rest) || about_case(key, value, rest);
    if (!known) wrong(*header_, "the header line \"" + text + "\" means nothing");
  }

  using Words = std::vector<std::string>;
  // Each handles the keys of its kind; false: the line is none of them.
  bool about_program(const std::string& key, const std::string& value, const Words& rest) {
    if (key == "program" && !value.empty()) {
      workload_->source = named_program(*header_, value);
    } else if (key == "gradient" && rest.size() == 1) {
      workload_->gradient_of = value;
      workload_->gradient_input = rest[0];
    } else if (key == "constant" && !value.empty()) {
      workload_->constants = rest;
      workload_->constants.push_back(value);
    } else if (key == "range" && rest.size() == 2) {
      workload_->ranges[value] = {std::stod(rest[0]), std::stod(rest[1])};
    } else {
      return false;
    }
    return true;
  }

  bool about_measure(const std::string& key, const std::string& value, const Words& rest) {
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
    } else if (key == "device") {
      workload_->devices = rest;
      workload_->devices.push_back(value);
      for (const std::string& device : workload_->devices) {
        if (device != "cpu" && device != "cuda") return false;
      }
    } else if (key == "measure" && (value == "gflops" || value == "gbps")) {
      workload_->measure = value == "gflops" ? Measure::gflops : Measure::gbps;
    } else if (key == "precision" && parse_precision(value)) {
      workload_->precision = parse_precision(value);
    } else if (key == "floats" && parse_dtype(value) && is_float(*parse_dtype(value))) {
      workload_->floats = *parse_dtype(value);
    } else if (key == "tolerance" && !value.empty()) {
      workload_->tolerance = std::stod(value);
      if (!rest.empty()) workload_->share = std::stod(rest[0]);
    } else {
      return false;
    }
    return true;
  }

  bool about_training(const std::string& key, const std::string& value, const Words& rest) {
    if (key == "part" && value.empty()) {
      workload_->part = true;
    } else if (key == "data" && !value.empty()) {
      workload_->data = rest;
      workload_->data.push_back(value);
    } else if (key == "train" && rest.size() == 1) {
      HeaderReader part(beside(rest[0]), Language::tile);
      part.read();
      if (!part.workload()->part) wrong(*header_, rest[0] + " has no line \"part\"");
      workload_->loss = value;
      workload_->optimiser = part.workload();
    } else if (key == "code" && rest.size() == 1) {
      for (const std::string& module : listed(value)) {
        code_[module].push_back(beside(rest[0])->text);
      }
    } else {
      return false;
    }
    return true;
  }

  bool about_case(const std::string& key, const std::string& value, const Words& rest) {
    if (key == "small" && !value.empty()) {
      Words all = rest;
      all.push_back(value);
      workload_->small = shapes(all);
    } else if ((key == "case" || key == "full") && !value.empty()) {
      cases_.push_back({value, workload_, shapes(rest), key == "full"});
    } else {
      return false;
    }
    return true;
  }

  std::map<std::string, InputType> shapes(const Words& words) const {
    std::map<std::string, InputType> all;
    for (const std::string& word : words) {
      auto [name, shape] = split(*header_, word);
      all[name] = cli::parse_shape(shape);
    }
    return all;
  }

  SourcePtr beside(const std::string& name) const {
    std::string path = (fs::path(header_->name).parent_path() / name).string();
    return std::make_shared<Source>(Source{path, cli::read_text(path)});
  }

  // Names between commas.
  static Words listed(const std::string& text) {
    Words names;
    std::istringstream list(text);
    for (std::string name; std::getline(list, name, ',');) names.push_back(name);
    return names;
  }

  // The rest of the line is Python, indentation included.
  void python(const std::string& key, const std::string& modules, std::istringstream& words) {
    std::string text;
    words.get();
    std::getline(words, text);
    if (text.empty()) wrong(*header_, "a line \"" + key + "\" without Python");
    for (const std::string& module : listed(modules)) {
      Workload::Peer& peer = workload_->peers[module];
      if (key == "prepare") {
        peer.prepare.push_back(text);
      } else {
        peer.expression = text;
      }
    }
  }

  SourcePtr header_;
  std::shared_ptr<Workload> workload_ = std::make_shared<Workload>();
  std::map<std::string, Words> code_;  // texts of files, by module
  std::vector<Case> cases_;
};

}  // namespace

std::vector<Case> cases_in(const SourcePtr& source, Language language) {
  return HeaderReader(source, language).read();
}

}  // namespace tile::bench
