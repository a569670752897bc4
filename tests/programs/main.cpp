// Random whole programs, and networks, under random configurations against the reference.
//
//   tile-program-check run FIRST COUNT [OPTION VALUE]...   random programs of these seeds
//   tile-program-check networks DIR [OPTION VALUE]...      the networks of a folder
//   tile-program-check show SEED                           a Tile program and its configuration
//   tile-program-check shrink SEED DIR [OPTION VALUE]...   one seed's failure, made small
//
// Options: --language tile|mfg|lift, --backend cpu|cuda, --features avx512|avx2|sse (else any of
// the host's), --jobs N, --seconds N (that one program may take), --shrink DIR (failures as
// conformance cases), --most N (of them), --sizes N (the first N sizes of each network).
//
// Prints a JSON line for each program that disagrees, crashes or hangs, one for each that is run
// without a gradient that the product may refuse and does, one every half minute and one at the end
// with the numbers of programs, of runs that were compared, of such refusals and of failures.
// Networks are compared with the reference interpreter at their first size, and with the CPU at the
// others if they run on a GPU. Exit status: 0 all agree, 1 some do not, 77 no such backend.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/ir/text.h"
#include "tests/executors/run_backends.h"
#include "tests/programs/campaign.h"
#include "tests/programs/finding.h"
#include "tests/programs/networks.h"
#include "tests/programs/subjects.h"
#include "tests/random/random_whole.h"

// Memory for temporaries is what the runtime allocates aligned: it begins as quiet NaN in every
// float type and as negative integers, so that what is read before it is written shows.
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  auto align = static_cast<std::size_t>(alignment);
  void* memory = std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0xff, bytes);
  return memory;
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace tile::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kGradients = 3;  // a network as it is, differentiated once, twice

struct Arguments {
  std::string command, networks, only;
  uint64_t first = 0, count = 1;
  Language language = Language::tile;
  std::string backend = "cpu", features;
  size_t sizes = 3;
  CampaignOptions campaign;

  Configuration configuration(uint64_t seed) const {
    return random_configuration(seed, backend, features);
  }
};

ProgramRunner& runner() {
  static ProgramRunner of_this_process;
  return of_this_process;
}

std::string shrink(const Arguments& a, uint64_t seed, const std::string& wrong,
                   const std::string& folder) {
  Finding finding{random_whole(seed), a.configuration(seed), wrong};
  finding = shrunk_finding(finding, std::min(a.campaign.processes.seconds, 20));
  std::string path = folder + "/program_" + std::to_string(seed) + ".json";
  try {
    std::ofstream(path) << conformance_file(finding, "program " + std::to_string(seed)) << "\n";
  } catch (const Failure& failure) {
    return std::string("no case: ") + failure.what();
  }
  return Json{{"shrunk", seed},
              {"file", path},
              {"wrong", finding.wrong},
              {"configuration", finding.configuration.text()},
              {"program", case_of(finding.program).drawn.text}}
      .dump();
}

int random_programs(const Arguments& a) {
  Items items;
  items.run = [&](uint64_t seed) {
    Configuration configuration = a.configuration(seed);
    Drawn drawn = drawn_cases(a.language, seed, configuration);
    Outcome outcome = runner().run(drawn.cases, configuration);
    outcome.refused = drawn.refused;
    return outcome;
  };
  items.describe = [&](uint64_t seed) { return a.configuration(seed).text(); };
  if (a.language == Language::tile) {
    items.shrink = [&](uint64_t seed, const std::string& wrong, const std::string& folder) {
      return shrink(a, seed, wrong, folder);
    };
  }
  return Campaign(a.campaign, items).run(a.first, a.count);
}

int networks(const Arguments& a) {
  std::vector<Network> list = networks_in(a.networks);
  std::erase_if(list, [&](const Network& n) { return !a.only.empty() && n.name != a.only; });
  auto size_of = [&](uint64_t item) { return static_cast<size_t>(item) / kGradients % a.sizes; };
  auto network_of = [&](uint64_t item) -> const Network& {
    return list[item / kGradients / a.sizes];
  };
  Items items;
  items.run = [&](uint64_t item) {
    Configuration configuration;
    configuration.backend = a.backend;
    configuration.features = a.features;
    configuration.threads = 1 + static_cast<int>(item % 4);
    bool small = size_of(item) == 0 || a.backend == "cpu";
    return runner().run({case_of(network_of(item), size_of(item), item % kGradients, item)},
                        configuration, small ? Evaluate(evaluated) : evaluate_on_cpu());
  };
  items.describe = [&](uint64_t item) {
    std::string text = network_of(item).name + ", size " + std::to_string(size_of(item));
    return text + ", derivative " + std::to_string(item % kGradients);
  };
  return Campaign(a.campaign, items).run(0, list.size() * a.sizes * kGradients);
}

int show(const Arguments& a) {
  if (a.language != Language::tile) {
    Drawn drawn = drawn_cases(a.language, a.first, a.configuration(a.first));
    const std::vector<WholeCase>& cases = drawn.cases;
    if (!drawn.refused.empty()) std::cout << "gradient refused: " << drawn.refused << "\n";
    std::cout << cases.back().drawn.text << "\n";
    for (const WholeCase& c : cases) {
      for (const HostTensor& input : c.drawn.inputs)
        std::cout << print_integers(input.shape) << " ";
      std::cout << "\n";
    }
    std::cout << print(*cases.back().program) << a.configuration(a.first).text() << "\n";
    return 0;
  }
  WholeProgram program = random_whole(a.first);
  std::cout << text_of(program);
  for (const WholeGradient& g : program.gradients) {
    std::cout << "gradient of " << g.of << " with respect to";
    for (const std::string& name : g.wrt) std::cout << " " << name;
    std::cout << "\n";
  }
  for (const auto& [name, size] : program.sizes) std::cout << name << " = " << size << "\n";
  for (const WholeInput& i : program.inputs)
    std::cout << i.name << " " << to_string(i.type) << "\n";
  std::cout << a.configuration(a.first).text() << "\n";
  return 0;
}

Arguments parsed(int argc, char** argv) {
  Arguments a;
  a.campaign.processes.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  a.command = argc > 1 ? argv[1] : "";
  if (argc > 2) a.first = std::strtoull(argv[2], nullptr, 10);
  if (argc > 2 && a.command == "networks") a.networks = argv[2];
  int at = 3;
  if (a.command == "run" && argc > 3) a.count = std::strtoull(argv[at++], nullptr, 10);
  if (a.command == "shrink" && argc > 3) a.campaign.folder = argv[at++];
  for (; at + 1 < argc; at += 2) {
    std::string option = argv[at], value = argv[at + 1];
    if (option == "--language") a.language = parse_language(value).value_or(Language::tile);
    if (option == "--backend") a.backend = value;
    if (option == "--features") a.features = value;
    if (option == "--jobs") a.campaign.processes.jobs = std::atoi(value.c_str());
    if (option == "--seconds") a.campaign.processes.seconds = std::atoi(value.c_str());
    if (option == "--shrink") a.campaign.folder = value;
    if (option == "--most") a.campaign.most = std::atoi(value.c_str());
    if (option == "--only") a.only = value;
    if (option == "--sizes") a.sizes = std::strtoull(value.c_str(), nullptr, 10);
  }
  return a;
}

// In a process of its own: this one starts no threads.
bool has_backend(const std::string& backend, int jobs) {
  bool has = false;
  in_processes(
      {std::min(jobs, 1), 120, 1}, 0, 1,
      [&](uint64_t) {
        try {
          test_engine(backend);
          return ItemResult{"yes"};
        } catch (const Failure& failure) {
          return ItemResult{failure.what()};
        }
      },
      [&](uint64_t, const std::string& line, const std::string&) { has = line == "yes"; });
  return has;
}

int main_of(int argc, char** argv) {
  Arguments a = parsed(argc, argv);
  bool random = a.command == "run" || a.command == "shrink";
  if (!random && a.command != "networks" && a.command != "show") {
    std::cerr
        << "usage: tile-program-check run FIRST COUNT | networks DIR | show SEED | shrink SEED DIR"
           " [OPTION VALUE]...\n";
    return 2;
  }
  try {
    if (a.command == "show") return show(a);
    if (!has_backend(a.backend, a.campaign.processes.jobs)) return 77;
    return random ? random_programs(a) : networks(a);
  } catch (const Failure& failure) {
    std::cerr << "tile-program-check: " << failure.what() << "\n";
    return 2;
  }
}

}  // namespace
}  // namespace tile::test

int main(int argc, char** argv) { return tile::test::main_of(argc, argv); }
