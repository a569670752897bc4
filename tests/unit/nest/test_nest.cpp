// The Nest: text form, verifier, interpreter, loop partition.
#include <gtest/gtest.h>

#include "core/nest/nest.h"
#include "core/support/diagnostic.h"

namespace tile::nest {
namespace {

Nest parsed(const std::string& text) {
  Nest nest = parse_nest(std::make_shared<Source>(Source{"nest", text}));
  verify(nest);
  return nest;
}

HostTensor iota(Shape shape) {
  HostTensor t(DType::f32, std::move(shape));
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, integer_scalar(i % 7 - 3, DType::f32));
  return t;
}

// A 3-wide sum with zero borders over 21 elements, in tiles of two vectors of 4.
const char* kStencil = R"(nest stencil
argument A: f32 [21] strides [1]
argument B: f32 [21] strides [1] written
registers acc: f32 [2, 4] strides [4, 1]
parallel t from [0] extent [3] grain 1 {
  alloc acc
  unrolled u from [0] extent [2] {
    vector l from [0] extent [4] width 4 {
      assign acc[u, l] () { %0:f32 = real 0; yield %0 }
    }
  }
  serial k from [0] extent [3] {
    unrolled u from [0] extent [2] {
      vector l from [0] extent [4] width 4 {
        if [l + 4 * u + 8 * t + k - 1, 21 - l - 4 * u - 8 * t - k, 20 - l - 4 * u - 8 * t] {
          add acc[u, l] (A[l + 4 * u + 8 * t + k - 1]) { %0:f32 = load 0; yield %0 }
        }
      }
    }
  }
  unrolled u from [0] extent [2] {
    vector l from [0] extent [min(4, 21 - 4 * u - 8 * t)] width 4 {
      assign B[l + 4 * u + 8 * t] (acc[u, l]) { %0:f32 = load 0; yield %0 }
    }
  }
}
)";

std::vector<float> run(const Nest& nest, NestCounts* counts = nullptr) {
  HostTensor a = iota({21}), b(DType::f32, {21});
  interpret(nest, {&a, &b}, {}, counts);
  std::vector<float> values;
  for (int64_t i = 0; i < b.count(); ++i) values.push_back(static_cast<float>(b.at(i).f));
  return values;
}

std::vector<float> expected() {
  HostTensor a = iota({21});
  std::vector<float> values(21);
  for (int64_t i = 0; i < 21; ++i) {
    for (int64_t j = std::max<int64_t>(0, i - 1); j <= std::min<int64_t>(20, i + 1); ++j) {
      values[static_cast<size_t>(i)] += static_cast<float>(a.at(j).f);
    }
  }
  return values;
}

TEST(Nest, TextRoundTrips) {
  Nest nest = parsed(kStencil);
  std::string text = print(nest);
  EXPECT_EQ(print(parsed(text)), text);
}

TEST(Nest, OrderedLoopsAreRunningValues) {
  const char* text =
      "nest scan\n"
      "argument A: i32 [5] strides [1]\n"
      "argument B: i32 [5] strides [1] written\n"
      "registers acc: i32 [1] strides [1]\n"
      "alloc acc\n"
      "assign acc[0] () { %0:i32 = int 10; yield %0 }\n"
      "vector i from [0] extent [5] width 8 ordered {\n"
      "  add acc[0] (A[i]) { %0:i32 = load 0; yield %0 }\n"
      "  assign B[i] (acc[0]) { %0:i32 = load 0; yield %0 }\n"
      "}\n";
  Nest nest = parsed(text);
  verify(nest);
  EXPECT_EQ(print(parsed(print(nest))), print(nest));
  HostTensor a(DType::i32, {5}), b(DType::i32, {5});
  for (int64_t i = 0; i < 5; ++i) a.set(i, integer_scalar(i + 1, DType::i32));
  interpret(nest, {&a, &b});
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(same_value(b.at(i), integer_scalar(10 + (i + 1) * (i + 2) / 2, DType::i32))) << i;
  }
  Nest other = nest;
  std::get<For>(other.body[2].what).kind = LoopKind::serial;
  EXPECT_THROW(verify(other), InternalError);
}

TEST(Nest, AnonymousTextDoesNotDependOnNames) {
  Nest a = parsed(kStencil), b = a;
  b.name = "other";
  b.buffers[0].name = "Input";
  EXPECT_EQ(print(a, true), print(b, true));
  EXPECT_NE(print(a), print(b));
}

TEST(Nest, InterpretsAStencil) { EXPECT_EQ(run(parsed(kStencil)), expected()); }

TEST(Nest, PartitionKeepsValuesAndDropsInteriorGuards) {
  Nest nest = parsed(kStencil);
  Nest split = partition(nest);
  verify(split);
  EXPECT_EQ(run(split), expected());
  NestCounts before, after;
  run(nest, &before);
  run(split, &after);
  // Of three tiles one is interior: a single test instead of one per element and tap.
  EXPECT_LT(after.guards, before.guards);
  EXPECT_NE(print(split).find("} else {"), std::string::npos);
}

TEST(Nest, AnIndexOutsideIsCaught) {
  std::string text = kStencil;
  text.replace(text.find("21 - l - 4 * u - 8 * t - k, 20"), 2, "25");
  EXPECT_THROW(run(parsed(text)), InternalError);
}

TEST(Nest, VerifierNamesWhatIsBroken) {
  auto broken = [](const std::string& from, const std::string& to) {
    std::string text = kStencil;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_THROW(parsed(broken("acc[u, l] ()", "acc[u] ()")), InternalError);
  EXPECT_THROW(parsed(broken("acc[u, l] ()", "acc[u, q] ()")), InternalError);
  EXPECT_THROW(parsed(broken("acc[u, l] ()", "A[l] ()")), InternalError);
  EXPECT_THROW(parsed(broken("= real 0;", "= missing 0;")), Failure);
  EXPECT_THROW(parsed(broken("serial k", "parallel k")), InternalError);
}

TEST(Nest, FusedStoresRoundOnce) {
  Nest nest = parsed(R"(nest fused
argument A: f32 [1] strides [1]
argument B: f32 [1] strides [1] written
fma B[0] (A[0]) { %0:f32 = load 0; yield %0, %0 }
)");
  HostTensor a(DType::f32, {1}), b(DType::f32, {1});
  double x = 1 + 0x1p-12;
  a.set(0, real_scalar(x, DType::f32));
  b.set(0, real_scalar(-1 - 0x1p-11, DType::f32));
  NestCounts counts;
  interpret(nest, {&a, &b}, {}, &counts);
  EXPECT_EQ(b.at(0).f, 0x1p-24);
  EXPECT_EQ(counts.multiply_adds, 1);
}

TEST(Nest, StoresByValueAndPredicates) {
  Nest nest = parsed(R"(nest scatter
argument I: i64 [3] strides [1]
argument R: f32 [4] strides [1] written
serial i from [0] extent [3] {
  if [1 - i] when (I[i]) { %0:i64 = load 0; yield %0 } {
    add R[%0] (I[i]) { %0:i64 = load 0; %1:f32 = real 1; yield %1 }
  } else {
    add R[0] () { %0:f32 = real 10; yield %0 }
  }
}
)");
  HostTensor index(DType::i64, {3}), result(DType::f32, {4});
  index.set(1, integer_scalar(3, DType::i64));
  interpret(nest, {&index, &result});
  EXPECT_EQ(result.at(0).f, 20);
  EXPECT_EQ(result.at(3).f, 1);
}

TEST(Nest, BadTextsAreLocatedErrors) {
  for (const char* text : {"", "nest", "nest n argument", "nest n serial i from [0] {",
                           "nest n argument A: f99 [1] strides [1]", "nest n add A[0] () {"}) {
    EXPECT_THROW(parse_nest(std::make_shared<Source>(Source{"nest", text})), Failure) << text;
  }
}

// Each block of 4 threads reverses its chunk through shared memory, twice.
const char* kBlocks = R"(nest reverse
argument A: f32 [12] strides [1]
argument B: f32 [12] strides [1] written
shared tile: f32 [4] strides [1]
registers own: f32 [1] strides [1]
grid b from [0] extent [3] {
  alloc tile
  thread t from [0] extent [2] {
    thread u from [0] extent [2] {
      alloc own
      assign tile[3 - u - 2*t] (A[4*b + u + 2*t]) { %0:f32 = load 0; yield %0 }
      serial k from [0] extent [2] {
        sync
        assign own[0] (tile[3 - u - 2*t]) { %0:f32 = load 0; yield %0 }
        sync
        assign tile[u + 2*t] (own[0]) { %0:f32 = load 0; yield %0 }
      }
      assign B[4*b + u + 2*t] (tile[u + 2*t]) { %0:f32 = load 0; yield %0 }
    }
  }
}
)";

std::vector<float> run_blocks(const std::string& text) {
  HostTensor a = iota({12}), b(DType::f32, {12});
  interpret(parsed(text), {&a, &b});
  std::vector<float> values;
  for (int64_t i = 0; i < b.count(); ++i) values.push_back(static_cast<float>(b.at(i).f));
  return values;
}

TEST(Nest, ThreadsMeetAtBarriers) {
  EXPECT_EQ(print(parsed(kBlocks)), kBlocks);
  // Reversed when written, reversed by each of two rounds: three times in all.
  std::vector<float> want;
  HostTensor a = iota({12});
  for (int64_t i = 0; i < 12; ++i) {
    want.push_back(static_cast<float>(a.at(4 * (i / 4) + 3 - i % 4).f));
  }
  EXPECT_EQ(run_blocks(kBlocks), want);
  std::string raced = kBlocks;
  raced.erase(raced.find("sync"), 4);
  EXPECT_THROW(run_blocks(raced), InternalError) << "a missing barrier shows";
}

// Each block of 2 threads reverses two chunks of 2, the second copied while the first is used.
const char* kAhead = R"(nest ahead
argument A: f32 [12] strides [1]
argument B: f32 [12] strides [1] written
shared tile: f32 [2, 2] strides [2, 1]
grid b from [0] extent [3] {
  alloc tile
  thread t from [0] extent [2] {
    assign asynchronous tile[0, t] (A[4*b + t]) { %0:f32 = load 0; yield %0 }
    sync pending 1
    assign asynchronous tile[1, t] (A[2 + 4*b + t]) { %0:f32 = load 0; yield %0 }
    sync pending 1
    assign B[4*b + t] (tile[0, 1 - t]) { %0:f32 = load 0; yield %0 }
    sync
    assign B[2 + 4*b + t] (tile[1, 1 - t]) { %0:f32 = load 0; yield %0 }
  }
}
)";

TEST(Nest, AsynchronousStoresHappenAtTheirBarriers) {
  EXPECT_EQ(print(parsed(kAhead)), kAhead);
  std::vector<float> want;
  HostTensor a = iota({12});
  for (int64_t i = 0; i < 12; ++i)
    want.push_back(static_cast<float>(a.at(i % 2 == 0 ? i + 1 : i - 1).f));
  EXPECT_EQ(run_blocks(kAhead), want);
  auto changed = [](const std::string& from, const std::string& to) {
    std::string text = kAhead;
    text.replace(text.rfind(from), from.size(), to);
    return text;
  };
  EXPECT_THROW(run_blocks(changed("sync pending 1", "sync pending 2")), InternalError)
      << "waiting for too few shows";
  EXPECT_THROW(run_blocks(changed("    sync\n", "    sync pending 2\n")), InternalError);
  EXPECT_THROW(parsed(changed("shared tile", "workspace tile")), InternalError);
  EXPECT_THROW(parsed(changed("%0:f32 = load 0; yield %0 }\n    sync\n",
                              "%0:f32 = load 0; yield %0 }\n    sync pending -1\n")),
               std::exception);
  std::string computed = kAhead;
  std::string load = "%0:f32 = load 0; yield %0";
  computed.replace(computed.find(load), load.size(), "%0:f32 = load 0; %1:f32 = neg %0; yield %1");
  EXPECT_THROW(parsed(computed), InternalError);
}

// All threads of a block take the same body; blocks with barriers have one.
TEST(Nest, PartitionOfABlockIsTakenByAllItsThreads) {
  std::string text = kBlocks;
  std::string read = "A[4*b + u + 2*t]";
  text.replace(text.find(read), read.size(), "A[min(max(4*b + u + 2*t - 1, 0), 11)]");
  EXPECT_EQ(print(partition(parsed(text))), print(parsed(text)));
  std::string one = "      serial k";  // without the rounds
  text.erase(text.find(one), text.find("      assign B") - text.find(one));
  std::string last = "tile[u + 2*t]";
  text.replace(text.find(last), last.size(), "tile[3 - u - 2*t]");
  std::string parts = print(partition(parsed(text)));
  EXPECT_NE(parts.find("if [-1 + 4*b] {\n    alloc tile"), std::string::npos) << parts;
  EXPECT_NE(parts.find("A[-1 + 4*b + 2*t + u]"), std::string::npos) << parts;
  EXPECT_EQ(run_blocks(parts), run_blocks(text));
}

// A condition holds in its branch, and the one that failed is below zero in the other: multiples of
// them decide the conditions inside. Two that failed together say nothing of either.
TEST(Nest, ConditionsDecideThoseInside) {
  auto split = [](const std::string& around, const std::string& inside) {
    return print(
        partition(parsed("nest known\nargument A: f32 [40] strides [1]\n"
                         "argument C: f32 [40] strides [1] written\n"
                         "serial t from [0] extent [8] {\n  if [" +
                         around +
                         "] {\n    assign C[t] (A[t]) { %0:f32 = load 0; yield %0 }\n"
                         "  } else {\n    if [" +
                         inside +
                         "] {\n      assign C[t + 8] (A[t]) { %0:f32 = load 0; yield %0 }\n"
                         "    } else {\n"
                         "      assign C[t + 16] (A[t]) { %0:f32 = load 0; yield %0 }\n"
                         "    }\n  }\n}\n")));
  };
  auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  std::string at_least = split("3 - t", "5*t - 19");  // t >= 4
  EXPECT_TRUE(has(at_least, "C[8 + t]") && !has(at_least, "C[16 + t]")) << at_least;
  std::string never = split("3 - t", "7 - 2*t");
  EXPECT_TRUE(!has(never, "C[8 + t]") && has(never, "C[16 + t]")) << never;
  std::string open = split("3 - t", "5*t - 21");
  EXPECT_TRUE(has(open, "C[8 + t]") && has(open, "C[16 + t]")) << open;
  std::string either = split("3 - t, t - 1", "5*t - 19");
  EXPECT_TRUE(has(either, "C[8 + t]") && has(either, "C[16 + t]")) << either;
}

TEST(Nest, ASingleLaneOfARegisterStaysALane) {
  const char* text = R"(nest single
argument A: f32 [17] strides [1]
argument C: f32 [17] strides [1] written
registers sums: f32 [2, 16] strides [16, 1] written
alloc sums
vector j from [0] extent [1] width 16 {
  assign sums[1, j] (A[16 + j]) { %0:f32 = load 0; yield %0 }
}
vector j from [0] extent [1] width 16 {
  assign C[16 + j] (sums[1, j]) { %0:f32 = load 0; yield %0 }
}
vector j from [0] extent [1] width 16 {
  assign C[j] (A[j]) { %0:f32 = load 0; yield %0 }
}
)";
  std::string split = print(partition(parsed(text)));
  EXPECT_NE(split.find("assign sums[1, j]"), std::string::npos) << split;
  EXPECT_NE(split.find("(sums[1, j])"), std::string::npos) << split;
  EXPECT_NE(split.find("assign C[0]"), std::string::npos) << split;
}

TEST(Nest, BarriersAndThreadsAreVerified) {
  auto broken = [](const std::string& from, const std::string& to) {
    std::string text = kBlocks;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_THROW(parsed(broken("extent [2] {\n        sync", "extent [t] {\n        sync")),
               InternalError);
  EXPECT_THROW(parsed(broken("grid b", "serial b")), InternalError);
  EXPECT_THROW(parsed(broken("thread u from [0] extent [2]", "thread u from [0] extent [b]")),
               InternalError);
  EXPECT_THROW(parsed(broken("  alloc tile\n", "  sync\n  alloc tile\n")), InternalError);
  EXPECT_THROW(parsed(broken("alloc own", "alloc tile")), InternalError);
}

TEST(Nest, CountersOfFoldsIndexLoads) {
  const char* text = R"(nest window
argument A: f32 [7] strides [1]
argument B: f32 [5] strides [1] written
serial i from [0] extent [5] {
  assign B[i] (A[i + k]) { %0:i64 = int 0; %1:i64 = int 3; %2:f32 = real 0; %3 = fold add 1 %0 %1 %2 [k] { %0:f32 = load 0; %1:i64 = size [k]; %2:f32 = cast %1; %3:f32 = mul %0 %2; yield %3 }; %4:f32 = component 0 %3; yield %4 }
}
)";
  Nest nest = parsed(text);
  EXPECT_EQ(print(nest), text);
  EXPECT_EQ(print(parsed(print(nest, true)), true), print(nest, true));
  verify(partition(nest));
  HostTensor a = iota({7}), b(DType::f32, {5});
  interpret(partition(nest), {&a, &b});
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(b.at(i).f, a.at(i + 1).f + 2 * a.at(i + 2).f);
  std::string bad = text;
  bad.replace(bad.find("A[i + k]"), 8, "A[i + q]");
  EXPECT_THROW(parsed(bad), InternalError);
}

}  // namespace
}  // namespace tile::nest
