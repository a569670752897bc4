// Programs on meshes of threads through the C interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tile/tile.h"

namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kProduct =
    "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}";

std::string text_of(tile_error* error) {
  if (error == nullptr) return "";
  std::string text = std::string(tile_error_code(error)) + ": " + tile_error_message(error);
  tile_error_free(error);
  return text;
}

struct Tensor {
  explicit Tensor(std::vector<int64_t> extents) : shape(std::move(extents)) {
    int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    values.resize(static_cast<size_t>(count) + 1);
    dl.data = values.data();
    dl.device = {kDLCPU, 0};
    dl.ndim = static_cast<int32_t>(shape.size());
    dl.dtype = {kDLFloat, 32, 1};
    dl.shape = shape.data();
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  std::vector<int64_t> shape;
  std::vector<float> values;
  DLTensor dl{};
};

std::vector<int64_t> shape_of(const DLTensor& t) { return {t.shape, t.shape + t.ndim}; }

class Meshes : public ::testing::Test {
 protected:
  void SetUp() override {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.cache_mode = "off";
    options.threads = 1;
    ASSERT_EQ(text_of(tile_engine_create(&options, &engine_)), "");
    ASSERT_EQ(text_of(parse(kProduct, &program_)), "");
  }
  void TearDown() override {
    tile_program_free(program_);
    tile_engine_free(engine_);
  }

  tile_error* parse(const std::string& text, tile_program** program) {
    return tile_program_parse(engine_, "tile", "mm.tile", text.c_str(), text.size(), program);
  }

  static tile_mesh_options options_of(const char* axes, double timeout = 30) {
    tile_mesh_options options{};
    options.struct_size = sizeof options;
    options.axes = axes;
    options.timeout_seconds = timeout;
    return options;
  }

  // What each rank's work returns, on a thread of its own.
  std::vector<std::string> on_ranks(const char* axes, size_t count,
                                    const std::function<std::string(tile_mesh*)>& work,
                                    double timeout = 30) {
    std::vector<tile_mesh*> meshes(count);
    tile_mesh_options options = options_of(axes, timeout);
    std::string error = text_of(tile_mesh_create_local(engine_, &options, meshes.data(), count));
    if (!error.empty()) return {error};
    std::vector<std::string> results(count);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < count; ++r) {
      threads.emplace_back([&, r] { results[r] = work(meshes[r]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (tile_mesh* mesh : meshes) tile_mesh_free(mesh);
    return results;
  }

  tile_error* compile(tile_mesh* mesh, const char* layouts, tile_executable** executable,
                      int64_t rows = 5, const char* overlap = nullptr) {
    Tensor a({rows, 3}), b({3, 4});
    const DLTensor* inputs[] = {&a.dl, &b.dl};
    tile_compile_options options{};
    options.struct_size = sizeof options;
    options.mesh = mesh;
    options.layouts = layouts;
    options.overlap = overlap;
    return tile_program_compile_with(program_, inputs, 2, &options, executable);
  }

  tile_engine* engine_ = nullptr;
  tile_program* program_ = nullptr;
};

// A number for each cell of a whole tensor.
float cell(int64_t i, int64_t j) { return static_cast<float>(7 * i + 3 * j - 4); }

void fill(Tensor& t, const int64_t* begin) {
  for (int64_t i = 0; i < t.shape[0]; ++i) {
    for (int64_t j = 0; j < t.shape[1]; ++j) {
      t.values[static_cast<size_t>(i * t.shape[1] + j)] = cell(begin[0] + i, begin[1] + j);
    }
  }
}

// Runs one rank's boxes; what is wrong with the result.
std::string run_product(tile_executable* executable) {
  DLTensor a{}, b{}, c{};
  int64_t at_a[2], at_b[2], at_c[2], whole[2];
  tile_executable_input(executable, 0, &a);
  tile_executable_input(executable, 1, &b);
  tile_executable_output(executable, 0, &c);
  tile_executable_input_box(executable, 0, at_a, nullptr);
  tile_executable_input_box(executable, 1, at_b, nullptr);
  tile_executable_output_box(executable, 0, at_c, whole);
  Tensor given_a(shape_of(a)), given_b(shape_of(b)), made(shape_of(c));
  fill(given_a, at_a);
  fill(given_b, at_b);
  const DLTensor* inputs[] = {&given_a.dl, &given_b.dl};
  DLTensor* outputs[] = {&made.dl};
  std::string error = text_of(tile_executable_run(executable, inputs, 2, outputs, 1, nullptr));
  for (int64_t i = 0; error.empty() && i < made.shape[0]; ++i) {
    for (int64_t j = 0; j < made.shape[1]; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < 3; ++k) sum += cell(at_c[0] + i, k) * cell(k, at_c[1] + j);
      if (made.values[static_cast<size_t>(i * made.shape[1] + j)] != sum) error = "another value";
    }
  }
  return whole[0] == 5 && whole[1] == 4 ? error : "another shape";
}

TEST_F(Meshes, EveryRankRunsItsBoxes) {
  for (const char* layouts : {"A[x, *] B[*, y] C[x, y]", "A[*, x] B[x, *] C[y, *]  C: k=x",
                              static_cast<const char*>(nullptr)}) {
    auto results = on_ranks("x=2, y=2", 4, [&](tile_mesh* mesh) {
      tile_executable* executable = nullptr;
      std::string error = text_of(compile(mesh, layouts, &executable));
      for (int run = 0; run < 2 && error.empty(); ++run) error = run_product(executable);
      tile_executable_free(executable);
      return error;
    });
    EXPECT_THAT(results, Each(""));
  }
}

TEST_F(Meshes, TellsBoxesAndRanks) {
  std::vector<std::vector<int64_t>> shapes(2), begins(2);
  auto results = on_ranks("x=2", 2, [&](tile_mesh* mesh) {
    tile_executable* executable = nullptr;
    std::string error = text_of(compile(mesh, "A[x, *] B[*, *] C[x, *]", &executable));
    size_t rank = tile_mesh_rank(mesh);
    DLTensor c{};
    tile_executable_output(executable, 0, &c);
    shapes[rank] = shape_of(c);
    begins[rank].resize(2);
    tile_executable_output_box(executable, 0, begins[rank].data(), nullptr);
    EXPECT_EQ(tile_mesh_rank_count(mesh), 2U);
    tile_executable_free(executable);
    return error;
  });
  EXPECT_THAT(results, Each(""));
  EXPECT_THAT(shapes, ElementsAre(ElementsAre(3, 4), ElementsAre(2, 4)));
  EXPECT_THAT(begins, ElementsAre(ElementsAre(0, 0), ElementsAre(3, 0)));
}

// Whether parts travel while a rank computes is its own affair.
TEST_F(Meshes, RanksMayOverlapAsTheyLike) {
  const char* text = "function (A[N]) -> (O) {\n  O[i: N - 4] = +(A[i + j]), j < 5;\n}";
  tile_program* blur = nullptr;
  ASSERT_EQ(text_of(parse(text, &blur)), "");
  for (const char* overlap : {"never", "auto", "always"}) {
    auto results = on_ranks("x=3", 3, [&](tile_mesh* mesh) {
      size_t rank = tile_mesh_rank(mesh);
      tile_compile_options options{};
      options.struct_size = sizeof options;
      options.mesh = mesh;
      options.layouts = "A[x] O[x(100, 100, 96)]";
      options.overlap = rank == 1 ? overlap : "always";
      Tensor whole({300}), a({100}), o({rank == 2 ? 96 : 100});
      const DLTensor* shapes[] = {&whole.dl};
      tile_executable* executable = nullptr;
      std::string error =
          text_of(tile_program_compile_with(blur, shapes, 1, &options, &executable));
      float first = 100 * static_cast<float>(rank);
      std::iota(a.values.begin(), a.values.end(), first);
      const DLTensor* inputs[] = {&a.dl};
      DLTensor* outputs[] = {&o.dl};
      for (int run = 0; run < 3 && error.empty(); ++run) {
        error = text_of(tile_executable_run(executable, inputs, 1, outputs, 1, nullptr));
        for (size_t i = 0; i + 1 < o.values.size(); ++i) {
          if (o.values[i] != 5 * (first + static_cast<float>(i)) + 10) error = "another value";
        }
        o.values.assign(o.values.size(), -1);
      }
      tile_executable_free(executable);
      return error;
    });
    EXPECT_THAT(results, Each("")) << overlap;
  }
  tile_program_free(blur);
}

TEST_F(Meshes, NoOtherOverlapIsKnown) {
  auto results = on_ranks("x=2", 2, [&](tile_mesh* mesh) {
    tile_executable* executable = nullptr;
    return text_of(compile(mesh, nullptr, &executable, 5, "sometimes"));
  });
  EXPECT_THAT(results, Each("argument: no such overlap: sometimes"));
}

TEST_F(Meshes, RanksThatDifferAllSaySo) {
  auto results = on_ranks("x=2", 2, [&](tile_mesh* mesh) {
    tile_executable* executable = nullptr;
    return text_of(compile(mesh, nullptr, &executable, tile_mesh_rank(mesh) == 1 ? 6 : 5));
  });
  EXPECT_THAT(
      results,
      Each("agreement: rank 1 of 2 was given another shape or type of an input than rank 0"));
}

TEST_F(Meshes, ARankThatAbortsEndsTheRunsOfOthers) {
  auto results = on_ranks("x=2", 2, [&](tile_mesh* mesh) {
    tile_executable* executable = nullptr;
    std::string error = text_of(compile(mesh, "A[x, *] B[x, *] C[x, *]", &executable));
    if (error.empty() && tile_mesh_rank(mesh) == 1) {
      error = text_of(tile_mesh_abort(mesh, "the disk is full"));
    } else if (error.empty()) {
      error = run_product(executable);
    }
    tile_executable_free(executable);
    return error;
  });
  EXPECT_EQ(results[1], "");
  EXPECT_EQ(results[0],
            "rank: rank 1 of 2 failed before the all-gather of B, mm.tile:2: the disk is full");
}

TEST_F(Meshes, ARunThatWaitsCanBeCancelled) {
  auto results = on_ranks("x=2", 2, [&](tile_mesh* mesh) {
    tile_executable* executable = nullptr;
    std::string error = text_of(compile(mesh, "A[x, *] B[x, *] C[x, *]", &executable));
    if (tile_mesh_rank(mesh) == 0 && error.empty()) {
      Tensor a({3, 3}), b({2, 4}), c({3, 4});
      const DLTensor* inputs[] = {&a.dl, &b.dl};
      DLTensor* outputs[] = {&c.dl};
      tile_run_options options{};
      options.struct_size = sizeof options;
      options.cancel = [](void*) { return 1; };
      error = text_of(tile_executable_run(executable, inputs, 2, outputs, 1, &options));
    }
    tile_executable_free(executable);
    return error;
  });
  EXPECT_THAT(results[0], HasSubstr("cancelled: "));
}

TEST_F(Meshes, ErrorsAreInTheirOwnTexts) {
  tile_mesh* mesh = nullptr;
  tile_mesh_options options = options_of("x=2,,");
  tile_error* error = tile_mesh_create_local(engine_, &options, &mesh, 1);
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(tile_error_rendered(error), HasSubstr("<axes>:1:5: parse error"));
  tile_error_free(error);
  auto results = on_ranks("x=2", 2, [&](tile_mesh* end) {
    tile_executable* executable = nullptr;
    tile_error* wrong = compile(end, "A[x, q]", &executable);
    std::string text = wrong == nullptr ? "" : tile_error_rendered(wrong);
    tile_error_free(wrong);
    return text;
  });
  EXPECT_THAT(results,
              Each(HasSubstr("<layouts>:1:6: parse error [mesh]: the mesh has no axis q")));
}

TEST_F(Meshes, ArgumentsAreChecked) {
  tile_mesh* mesh = nullptr;
  tile_mesh_options options = options_of("x=2");
  EXPECT_THAT(text_of(tile_mesh_create(engine_, &options, &mesh)),
              HasSubstr("argument: one of transport and given is to be set"));
  EXPECT_THAT(text_of(tile_mesh_create_local(engine_, &options, &mesh, 1)),
              HasSubstr("mesh: the mesh x=2 has 2 ranks; there is room for 1"));
  options.timeout_seconds = -1;
  EXPECT_THAT(text_of(tile_mesh_create_local(engine_, &options, &mesh, 1)),
              HasSubstr("argument: timeout_seconds"));
  options = options_of("x=1");
  options.transport = "nccl";
  EXPECT_THAT(text_of(tile_mesh_create(engine_, &options, &mesh)),
              HasSubstr("no transport is called"));
  EXPECT_EQ(mesh, nullptr);
  EXPECT_EQ(text_of(tile_mesh_abort(nullptr, nullptr)), "argument: mesh is NULL");
}

TEST_F(Meshes, TensorsOfARunAreChecked) {
  auto results = on_ranks("x=1", 1, [&](tile_mesh* mesh) {
    tile_executable* executable = nullptr;
    EXPECT_EQ(text_of(compile(mesh, nullptr, &executable)), "");
    Tensor a({5, 3}), b({3, 4}), c({5, 4}), other({4, 5});
    const DLTensor* inputs[] = {&a.dl, &b.dl};
    DLTensor* outputs[] = {&other.dl};
    auto run = [&] {
      return text_of(tile_executable_run(executable, inputs, 2, outputs, 1, nullptr));
    };
    EXPECT_THAT(
        run(),
        HasSubstr("argument: output C (0) is f32[4, 5], expected this rank's box, f32[5, 4]"));
    outputs[0] = &c.dl;
    std::vector<int64_t> columns{1, 5};
    a.dl.strides = columns.data();
    EXPECT_THAT(run(), HasSubstr("argument: input A (0) is not dense"));
    a.dl.strides = nullptr;
    void* own = c.dl.data;
    c.dl.data = a.dl.data;
    EXPECT_THAT(run(), HasSubstr("overlap: output C (0)"));
    c.dl.data = own;
    EXPECT_EQ(run(), "");
    char* text = nullptr;
    EXPECT_THAT(text_of(tile_executable_emit(executable, "program", &text)),
                HasSubstr("not for an executable on a mesh"));
    EXPECT_THAT(text_of(tile_executable_tune(executable, 1)),
                HasSubstr("not for an executable on a mesh"));
    tile_executable_free(executable);
    return std::string();
  });
  EXPECT_THAT(results, Each(""));
}

TEST_F(Meshes, WithoutAMeshBoxesAreWhole) {
  Tensor a({5, 3}), b({3, 4});
  const DLTensor* inputs[] = {&a.dl, &b.dl};
  tile_executable* executable = nullptr;
  ASSERT_EQ(text_of(tile_program_compile(program_, inputs, 2, &executable)), "");
  int64_t begin[2] = {9, 9}, whole[2] = {9, 9};
  EXPECT_EQ(text_of(tile_executable_output_box(executable, 0, begin, whole)), "");
  EXPECT_THAT(begin, ElementsAre(0, 0));
  EXPECT_THAT(whole, ElementsAre(5, 4));
  EXPECT_THAT(text_of(tile_executable_output_box(executable, 1, begin, whole)),
              HasSubstr("no such output"));
  tile_executable_free(executable);
}

}  // namespace
