#include "bench/peers/python.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/measure/training.h"
#include "bench/peers/process.h"

namespace tile::bench {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// A file in memory, where both processes find a tensor's elements.
class SharedFile {
 public:
  explicit SharedFile(const std::string& name)
      : path_("/dev/shm/tile-bench-" + std::to_string(getpid()) + "-" + name) {}
  ~SharedFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  const std::string& path() const { return path_; }
  void write(const Tensor& t) const {
    std::ofstream file(path_, std::ios::binary);
    file.write(static_cast<const char*>(t.data()), static_cast<std::streamsize>(t.bytes()));
  }
  void read(Tensor& t) const {
    std::ifstream file(path_, std::ios::binary);
    file.read(static_cast<char*>(t.data()), static_cast<std::streamsize>(t.bytes()));
  }

 private:
  std::string path_;
};

Json described(const SharedFile& file, const Tensor& t) {
  return {{"path", file.path()}, {"dtype", std::string(to_string(t.type()))}, {"shape", t.shape()}};
}

// Beside the installed program, beside the program itself, or in the source tree.
std::string driver() {
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& path :
       {folder.parent_path() / "share/tile/driver.py", folder / "driver.py"}) {
    if (!error && fs::exists(path)) return path.string();
  }
  return TILE_PEER_DRIVER;
}

// Those that TILE_BENCH_PYTHON names, separated by colons; otherwise the system's and that of
// install.sh --peers.
std::vector<std::string> interpreters() {
  const char* set = std::getenv("TILE_BENCH_PYTHON");
  std::istringstream list(set != nullptr ? set : "python3:" TILE_PEER_PYTHON);
  std::vector<std::string> result;
  for (std::string one; std::getline(list, one, ':');) {
    if (!one.empty()) result.push_back(one);
  }
  return result;
}

class PythonPeer : public Peer {
 public:
  PythonPeer(std::string module, int threads, const std::string& device, Precision precision)
      : module_(std::move(module)), precision_(precision) {
    for (const std::string& python : interpreters()) {
      command_ = {python, driver(), module_, std::to_string(threads), device};
      if (greet()) return;
    }
  }

  std::string name() const override { return module_; }
  std::string description() const override { return description_; }

  Calls prepare(const Case& c, std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    auto it = c.workload->peers.find(module_);
    if (!present_ || it == c.workload->peers.end()) return {};
    if (process_->ended()) start();
    Json task = task_of(*c.workload, it->second);
    std::vector<std::unique_ptr<SharedFile>> files;
    auto share = [&](const std::string& name, const Tensor& t) {
      files.push_back(std::make_unique<SharedFile>(name));
      files.back()->write(t);
      return described(*files.back(), t);
    };
    std::vector<std::string> names = input_names(program_of(c), c);
    for (size_t i = 0; i < inputs.size(); ++i)
      task["inputs"][names[i]] = share(names[i], inputs[i]);
    size_t first = files.size();
    for (size_t i = 0; i < outputs.size(); ++i) {
      task["outputs"].push_back(share("result " + std::to_string(i), outputs[i]));
    }
    Json answer = answered(task);
    // The first call, outside every timing, is the one whose values are compared.
    computed_ = answer.at("outputs").get<size_t>();
    for (size_t i = 0; i < computed_; ++i) files[first + i]->read(outputs[i]);
    return [this](int64_t count) {
      return answered({{"do", "run"}, {"count", count}}).at("ns").get<double>();
    };
  }

  size_t computed() const override { return computed_; }
  std::optional<double> allocated_bytes() override {
    Json answer = ask({{"do", "memory"}});
    if (!answer.contains("bytes")) return std::nullopt;
    return answer["bytes"].get<double>();
  }

 private:
  // Whether the module is there; the first reason why not is kept.
  bool greet() {
    std::string why;
    try {
      Json hello = start();
      present_ = hello.contains("description");
      if (present_) description_ = hello["description"].get<std::string>();
      why = hello.value("error", "no answer");
    } catch (const Failure& failure) {
      why = failure.what();
    }
    if (description_.empty()) description_ = "not found: " + why;
    return present_;
  }
  Json start() {
    process_ = std::make_unique<Process>(command_);
    return ask({{"do", "describe"}});
  }
  Json ask(const Json& question) { return Json::parse(process_->ask(question.dump())); }
  Json answered(const Json& question) {
    Json answer = ask(question);
    if (answer.contains("error")) fail(Stage::run, "peer", {}, answer["error"].get<std::string>());
    return answer;
  }

  // What the module is to compute, without tensors.
  Json task_of(const Workload& workload, const Workload::Peer& peer) const {
    Json task = {{"do", "prepare"}, {"prepare", peer.prepare}, {"expression", peer.expression}};
    task["attributes"] = workload.attributes;
    task["program"] = workload.source->text;
    task["tf32"] = workload.precision.value_or(precision_) == Precision::tf32;
    if (!workload.optimiser) return task;
    auto own = workload.optimiser->peers.find(module_);
    if (own == workload.optimiser->peers.end()) {
      fail(Stage::run, "peer", {}, workload.optimiser->source->name + " has no line for it");
    }
    TrainingStep step = training_step(workload);
    task["train"] = {{"loss", step.loss},
                     {"weights", step.weights},
                     {"arguments", step.arguments},
                     {"states", step.states},
                     {"shared", step.shared},
                     {"prepare", own->second.prepare},
                     {"expression", own->second.expression}};
    return task;
  }

  std::string module_, description_;
  Precision precision_;
  std::vector<std::string> command_;
  bool present_ = false;
  size_t computed_ = 1;
  std::unique_ptr<Process> process_;  // a new one after one that ended
};

}  // namespace

std::vector<std::unique_ptr<Peer>> make_python_peers(const std::vector<Case>& cases, int threads,
                                                     const std::string& device, Precision precision,
                                                     const std::vector<std::string>& only) {
  std::set<std::string> modules;
  for (const Case& c : cases) {
    for (const auto& [module, peer] : c.workload->peers) {
      bool wanted = only.empty() || std::find(only.begin(), only.end(), module) != only.end();
      if (wanted) modules.insert(module);
    }
  }
  std::vector<std::unique_ptr<Peer>> peers;
  for (const std::string& module : modules) {
    peers.push_back(std::make_unique<PythonPeer>(module, threads, device, precision));
  }
  return peers;
}

}  // namespace tile::bench
