#include "tests/gpu/ranks.h"

#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/cuda/cuda_backend.h"
#include "core/interpret/interpret.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "runtime/ranks/division.h"
#include "runtime/ranks/local_mesh.h"
#include "tests/distribute/random_layouts.h"
#include "tests/executors/run_backends.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/agreement/gradient_case.h"
#include "tests/ranks/device_ranks.h"

namespace tile::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRanks = 8;
constexpr size_t kToldFailures = 20;
// The second run with the same tensors is recorded, further ones are replayed.
constexpr int kRunsOfTensors = 3;
constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";
constexpr const char* kStencil =
    "function (A[M, N], B[K, L]) -> (O) {\n"
    "  O[i, j: M - 4, N - 4] = +(A[i + k, j + l] * B[k, l]);\n}";

struct Case {
  std::string text, mesh, layouts;
  std::vector<InputType> types;
  std::vector<HostTensor> inputs;
  bool exact = true;
};

class RankCheck {
 public:
  RankCheck() : gpus_(test_engine("cuda")) {}

  size_t most_ranks() const { return std::min(kMostRanks, static_cast<size_t>(cuda::gpu_count())); }

  int run(uint64_t first, uint64_t count) {
    random("random", first, count, [](uint64_t seed, RandomCase& drawn) {
      drawn = random_case(seed);
      return true;
    });
    random("gradients", first, count / 4, gradient_case);
    products();
    stencils();
    Json line{{"ranks", most_ranks()}, {"transport", ranks(2)->transport()}};
    size_t compared = 0;
    for (const auto& [kind, number] : compared_) {
      line[kind] = number;
      compared += number;
    }
    line["compared"] = compared;
    line["failed"] = failed_;
    line["failures"] = failures_;
    std::cout << line.dump() << std::endl;
    return failed_ == 0 ? 0 : 1;
  }

 private:
  // Shared by all programs on so many ranks: making links takes some time.
  std::shared_ptr<LocalRanks> ranks(size_t count) {
    std::shared_ptr<LocalRanks>& made = ranks_[count];
    if (!made) made = std::make_shared<LocalRanks>(gpus_, count);
    return made;
  }

  // The same for tensors that stay in the GPUs' memory, in one mesh each.
  const DeviceRanks& on_gpus(const std::string& mesh) {
    std::unique_ptr<DeviceRanks>& made = meshes_[mesh];
    if (made) return *made;
    std::shared_ptr<LocalRanks> same = ranks(mesh_of(mesh, "mesh").ranks());
    auto engine_of = [&](size_t rank) { return same->engine(rank); };
    made = std::make_unique<DeviceRanks>(mesh, kRankTimeoutSeconds, engine_of);
    return *made;
  }

  void compare(const std::string& kind, const Case& c) {
    std::string wrong;
    try {
      auto text = std::make_shared<const Source>(Source{"test.tile", c.text});
      auto source = std::make_shared<const Program>(parse_tile(text));
      Mesh mesh = mesh_of(c.mesh, "mesh");
      Division parts = divide(*source, c.types, mesh, c.layouts, "layouts");
      Interpretation expected = interpret(parts.program, c.inputs, {}, true);
      for (Overlap overlap : {Overlap::automatic, Overlap::always}) {
        LocalMesh on(ranks(mesh.ranks()), source, parts.program, parts.parts, {overlap, {}, {}});
        for (int run = 0; run < 2 && wrong.empty(); ++run) {
          wrong = difference(expected, on.run(c.inputs), c.exact);
        }
        MeshProgramOptions options{c.types, c.layouts};
        options.overlap = overlap;
        if (!wrong.empty()) break;
        for (const auto& outputs : on_gpus(c.mesh).run(source, options, c.inputs, kRunsOfTensors)) {
          if (wrong.empty()) wrong = difference(expected, outputs, c.exact);
        }
        if (!wrong.empty()) wrong = "on tensors in GPUs' memory: " + wrong;
      }
    } catch (const std::exception& error) {
      wrong = error.what();
      meshes_.erase(c.mesh);  // it may be dead
    }
    ++compared_[kind];
    if (wrong.empty()) return;
    ++failed_;
    if (failures_.size() < kToldFailures) {
      failures_.push_back({{"kind", kind},
                           {"wrong", wrong},
                           {"mesh", c.mesh},
                           {"layouts", c.layouts},
                           {"program", c.text}});
    }
  }

  void random(const std::string& kind, uint64_t first, uint64_t count,
              const std::function<bool(uint64_t, RandomCase&)>& draw) {
    for (uint64_t seed = first; seed < first + count; ++seed) {
      RandomCase drawn;
      if (!draw(seed, drawn)) continue;
      auto text = std::make_shared<const Source>(Source{"test.tile", drawn.text});
      BoundProgram program = tile::bind(parse_tile(text), drawn.types);
      RandomLayouts layouts = random_layouts(program, seed, true);
      size_t asked = mesh_of(layouts.mesh, "mesh").ranks();
      if (asked < 2 || asked > most_ranks()) continue;
      compare(kind, {drawn.text, layouts.mesh, layouts.layouts, drawn.types, drawn.inputs,
                     drawn.exact && kind != "gradients"});
    }
  }

  void whole_numbers(const std::string& kind, const char* text, const std::string& layouts,
                     DType type, const std::vector<Shape>& shapes) {
    Case c{text, "x=2", layouts, {}, {}, true};
    for (const Shape& shape : shapes) {
      HostTensor values = integers(shape, static_cast<int64_t>(c.inputs.size()));
      HostTensor typed(type, shape);
      for (int64_t i = 0; i < typed.count(); ++i) typed.set(i, convert(values.at(i), type));
      c.types.push_back({type, shape});
      c.inputs.push_back(std::move(typed));
    }
    compare(kind, c);
  }

  void products() {
    const char* divisions[] = {"A[x, *] B[*, x] C[*, x]",          // columns, rows gathered
                               "A[*, x] B[x, *] C[x, *]  C: k=x",  // rows, sums scattered
                               "A[*, x] B[x, *] C[*, *]  C: k=x",  // sums kept by all
                               "A[x, *] B[*, x] C[x, *]",         "A[*, x] B[*, x] C[x, *]",
                               "A[x(1, 0), *] B[*, *] C[*, x]"};
    for (const char* layouts : divisions) {
      for (DType type : {DType::f32, DType::bf16}) {
        bool uneven = std::string(layouts).find('(') != std::string::npos;
        for (int64_t size : {5, 64, 130}) {
          std::string fitted = layouts;
          if (uneven) {
            fitted.replace(fitted.find("1, 0"), 4, std::to_string(size) + ", 0");
          }
          whole_numbers("products", kProduct, fitted, type,
                        {{size, size + 3}, {size + 3, size + 1}});
        }
      }
    }
  }

  void stencils() {
    for (const char* layouts : {"A[x, *] B[*, *] O[x, *]", "A[*, x] B[*, *] O[*, x]"}) {
      for (int64_t size : {9, 40, 131}) {
        whole_numbers("stencils", kStencil, layouts, DType::f32, {{size, size + 2}, {5, 5}});
      }
    }
  }

  std::shared_ptr<Engine> gpus_;
  std::map<size_t, std::shared_ptr<LocalRanks>> ranks_;
  std::map<std::string, std::unique_ptr<DeviceRanks>> meshes_;
  std::map<std::string, size_t> compared_;
  size_t failed_ = 0;
  Json failures_ = Json::array();
};

}  // namespace

int check_ranks(uint64_t first, uint64_t count) {
  if (cuda::gpu_count() < 2) {
    std::cout << "skipped: " << cuda::gpu_count() << " GPUs, and two are needed" << std::endl;
    return 77;
  }
  return RankCheck().run(first, count);
}

}  // namespace tile::test
