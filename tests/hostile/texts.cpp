#include "texts.h"

#include <functional>

namespace tile::test {
namespace {

using Number = const std::function<std::string(int)>&;

// What `part` says for 0 … count - 1, one after the other.
std::string repeated(int count, Number part, const std::string& between = "") {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : between) + part(i);
  return text;
}
std::string times(int count, const std::string& part) {
  return repeated(count, [&](int) { return part; });
}
std::string n(int i) { return std::to_string(i); }

std::string tile_function(const std::string& inputs, const std::string& statements) {
  return "function (" + inputs + ") -> (O) { " + statements + " }";
}
std::string statements(int count, Number one, const std::string& last) {
  return tile_function("A[N]", "T0 = A; " + repeated(count, [&](int i) { return one(i + 1); }) +
                                   "O = " + last + ";");
}
std::string named(const std::string& name, int count) {
  return repeated(count, [&](int i) { return name + n(i); }, ", ");
}

void add_statements(std::vector<HostileText>& all) {
  auto add = [&](const char* name, const std::string& text) {
    all.push_back({name, "tile", text});
  };
  auto before = [](int i) { return "T" + n(i - 1); };
  auto pointwise = [&](int i) { return "T" + n(i) + " = " + before(i) + " * 0.5 + A; "; };
  auto window = [&](int i) {
    return "T" + n(i) + "[i: N] = +(" + before(i) + "[i+k]), k<" + n(2 + i % 7) + "; ";
  };
  add("pointwise statements, 1 MB", statements(38'000, pointwise, "T38000"));
  add("windows, 500", statements(500, window, "T500"));
  add("windows, 0.7 MB", statements(20'000, window, "T20000"));
  add("independent windows, 0.6 MB",
      statements(
          18'000,
          [](int i) { return "T" + n(i) + "[i: N] = +(A[i+j]), j < " + n(i % 50 + 1) + "; "; },
          "T1 + T18000"));
  add("60 squarings",
      statements(
          60, [&](int i) { return "T" + n(i) + " = " + before(i) + " * " + before(i) + "; "; },
          "T60"));
  add("40 doublings by shifted reads", statements(
                                           40,
                                           [&](int i) {
                                             return "T" + n(i) + "[i: N] = =(" + before(i) +
                                                    "[i] + " + before(i) + "[i+1]); ";
                                           },
                                           "T40"));
  add("25 selects of selects", statements(
                                   25,
                                   [&](int i) {
                                     std::string t = before(i);
                                     return "T" + n(i) + " = select(" + t + " > 0, " + t + " * " +
                                            t + ", " + t + " + " + t + "); ";
                                   },
                                   "T25"));
  add("long expressions, 0.8 MB",
      statements(
          200,
          [](int k) {
            return "T" + n(k) + " = A" +
                   repeated(400, [](int j) { return " * " + n(j % 7) + ".5 + A"; }) + "; ";
          },
          "T1 + T200"));
  add("fractions, 200", statements(
                            200,
                            [](int i) {
                              return "T" + n(i) + "[i, j: N, N] = +(A[i+j*" + n(i % 13 + 1) + "/" +
                                     n(i % 7 + 2) + "]); ";
                            },
                            "A"));
}

void add_inputs(std::vector<HostileText>& all) {
  auto add = [&](const char* name, const std::string& text) {
    all.push_back({name, "tile", text});
  };
  add("100,000 inputs", tile_function(named("A", 100'000), "O = A0 + A1;"));
  add("10,000 inputs, 900 used",
      tile_function(named("A", 10'000),
                    "O = " + repeated(900, [](int i) { return "A" + n(i); }, " + ") + ";"));
  add("10,000 inputs, all summed",
      tile_function(named("A", 10'000), "T0 = A0; " + repeated(9'999, [](int i) {
                                          return "T" + n(i + 1) + " = T" + n(i) + " + A" +
                                                 n(i + 1) + "; ";
                                        }) + "O = T9999;"));
  add("a name of 1 MB", tile_function("A", "O = " + times(999'000, "x") + ";"));
  add("a comment of 1 MB", "# " + times(999'000, "x") + "\n" + tile_function("A", "O = A;"));
}

void add_nesting(std::vector<HostileText>& all) {
  auto add = [&](const char* name, const std::string& text) {
    all.push_back({name, "tile", text});
  };
  add("400,000 brackets",
      tile_function("A", "O = " + times(400'000, "(") + "A" + times(400'000, ")") + ";"));
  add("190 brackets",
      tile_function("A", "O = " + times(190, "exp(") + "A" + times(190, ")") + ";"));
  add("a chain of 990", tile_function("A", "O = A" + times(990, " + A") + ";"));
}

void add_indices(std::vector<HostileText>& all) {
  auto add = [&](const char* name, const std::string& text) {
    all.push_back({name, "tile", text});
  };
  auto coupled = [](int count) {
    return tile_function(
        "A[N]", "O[x: N] = +(A[x" + repeated(count, [](int i) { return " + i" + n(i); }) + "])" +
                    repeated(count, [](int i) { return ", i" + n(i) + " < 2"; }) + ";");
  };
  add("40 coupled indices", coupled(40));
  add("200 coupled indices", coupled(200));
  add("2,000 coupled indices", coupled(2'000));
  add("20 dimensions",
      tile_function(
          repeated(
              20, [](int i) { return "A" + n(i) + "[N" + n(i) + "]"; }, ", "),
          "O[] = +(" +
              repeated(20, [](int i) { return "A" + n(i) + "[i" + n(i) + "]"; }, " * ") + ");"));
  add("40,000 constraints",
      tile_function("A[N]", "O[i: N] = +(A[i+j]), j < 10" + repeated(30'000, [](int k) {
                              return ", " + n(k % 97 + 1) + "*i + " + n(k % 89) + "*j + " + n(k) +
                                     " < 1000000";
                            }) + ";"));
  add("large coefficients", tile_function("A[N]",
                                          "O[i: N] = +(A[1000000007*i + 998244353*j - 123456789*k "
                                          "+ 3]), j < 1000000, k < 1000000;"));
  add("coupled fractions", tile_function("A[N], B[M]",
                                         "O[i: N] = +(A[(7*i + 11*j - 13*k) / 17] * B[(19*j + 23*k "
                                         "- 29*l) / 31]), j<1000, k<1000, l<1000;"));
  add("an assignment over many points",
      tile_function("A[N]", "O[i + j*3 - k*7: N*N] = =(A[i]*A[j]), i < 2, j < 1000, k < 1000;"));
  add("an index beyond 64 bits",
      tile_function(
          "A[N]",
          "O[i: N] = +(A[4611686018427387904*i + 4611686018427387904*j - 9223372036854775807]);"));
}

void add_cells(std::vector<HostileText>& all) {
  auto add = [&](const char* name, const std::string& text) {
    all.push_back({name, "tile", text});
  };
  add("cells that nobody stores", tile_function("A[N]", "O[i: 4294967295] = <(A[i]);"));
  add("rows that nobody stores", tile_function("A[N]", "O[i, j: 4294967295, 7] = +(A[i+j]);"));
  add("cells of every 7th", tile_function("A[N]", "O[7*i: 4294967295] = +(A[i]);"));
  add("a temporary of 16 GB",
      tile_function(
          "A[N]",
          "T[i: 4000000000] = +(A[i]); S[i: 4000000000] = +(T[i-1]*T[i]); O[] = +(S[i] * T[i]);"));
  add("10^18 points", tile_function("A[I], B[J], C[K], D[L], E[M], F[P]",
                                    "O[] = +(exp(A[i]*B[j]+C[k]*D[l]+E[m]*F[n]));"));
}

void add_lift(std::vector<HostileText>& all) {
  auto add = [&](const char* name, const std::string& patterns) {
    all.push_back({name, "lift", "val f = fun(ArrayType(Float, N), x => " + patterns + " $ x)"});
  };
  add("lift: 66,000 maps", times(66'000, "Map(v => v) o ") + "Map(id)");
  add("lift: 300 maps", times(300, "Map(v => v) o ") + "Map(id)");
  add("lift: 20 slides, joined", times(20, "Join() o Slide(3,1) o ") + "Pad(1,1,clamp)");
  add("lift: 200 slides, joined", times(200, "Join() o Slide(3,1) o ") + "Pad(1,1,clamp)");
  add("lift: 30 slides", times(30, "Slide(3,1) o ") + "Pad(1,1,clamp)");
  add("lift: 50 pads", times(50, "Pad(1,1,clamp) o ") + "Pad(1,1,mirror)");
  add("lift: 15 stencils", times(15, "Map(Reduce(add, 0.0f)) o Slide(3,1) o ") + "Pad(1,1,clamp)");
  add("lift: 200 stencils",
      times(200, "Map(Reduce(add, 0.0f)) o Slide(3,1) o ") + "Pad(1,1,clamp)");
  add("lift: 60 splits", times(60, "Join() o Split(2) o ") + "Pad(1,1,clamp)");
  add("lift: 10,000 iterations", "Iterate(10000)(Map(v => v * 2.0f))");
}

void add_mfg(std::vector<HostileText>& all) {
  auto add = [&](const char* name, const std::string& text) { all.push_back({name, "mfg", text}); };
  auto ifels = [](int count) {
    return "@bounds(10)\ndef v |i| {\n" + times(count, "ifel(i, ") + "1" + times(count, ", 2)") +
           "\n}\n";
  };
  auto lets = [](int count) {
    return "@bounds(64, 64)\ndef v |x, y| {\n let a0 = x\n" +
           repeated(count,
                    [](int i) { return " let a" + n(i + 1) + " = a" + n(i) + " * 3 + y\n"; }) +
           " a" + n(count) + "\n}\n";
  };
  auto stencils = [](int count) {
    return "@bounds(64, 64)\ndef a0 |x, y| { 1.0 }\n" + repeated(count, [](int i) {
             std::string a = "a" + n(i);
             return "@bounds(64, 64)\ndef a" + n(i + 1) + " |x, y| { " + a + "(x, y) + " + a +
                    "(x+1, y) + " + a + "(x, y+1) }\n";
           });
  };
  auto tuple = [](int k) {
    return "@bounds(64)\ndef v" + n(k) + " |x| { [" +
           repeated(1000, [](int i) { return "x * " + n(i); }, ", ") + "] }\n";
  };
  add("mfg: 180 ifels", ifels(180));
  add("mfg: 50,000 ifels", ifels(50'000));
  add("mfg: 5,000 lets", lets(5'000));
  add("mfg: 30,000 lets", lets(30'000));
  add("mfg: 30 stencils", stencils(30));
  add("mfg: 12,000 stencils", stencils(12'000));
  add("mfg: a tuple of 1,000", tuple(0));
  add("mfg: 90 tuples of 1,000", repeated(90, tuple));
  add("mfg: a chain of 100,000",
      "@bounds(64)\ndef v |x| { x" + times(100'000, " + x * 3") + " }\n");
}

}  // namespace

const std::vector<HostileText>& hostile_texts() {
  static const std::vector<HostileText> texts = [] {
    std::vector<HostileText> all;
    for (auto add :
         {add_statements, add_inputs, add_nesting, add_indices, add_cells, add_lift, add_mfg}) {
      add(all);
    }
    return all;
  }();
  return texts;
}

}  // namespace tile::test
