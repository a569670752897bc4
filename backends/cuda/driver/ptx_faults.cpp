#include "backends/cuda/driver/ptx_faults.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

namespace tile::cuda {
namespace {

struct Instruction {
  std::string_view name;                    // "max.s32"
  std::vector<std::string_view> registers;  // the result first; other operands are left out
};

// Of a line without labels: "@%p1 max.s32 	%r1, %r2, 3;".
Instruction instruction_of(std::string_view line) {
  constexpr std::string_view kSpace = " \t", kEnd = " \t,;]}+";
  Instruction result;
  size_t at = line.find_first_not_of(kSpace);
  if (at != std::string_view::npos && line[at] == '@') {
    at = line.find_first_not_of(kSpace, line.find_first_of(kSpace, at));
  }
  if (at == std::string_view::npos) return result;
  size_t end = std::min(line.find_first_of(kSpace, at), line.size());
  result.name = line.substr(at, end - at);
  for (at = line.find('%', end); at != std::string_view::npos; at = line.find('%', end)) {
    end = std::min(line.find_first_of(kEnd, at), line.size());
    result.registers.push_back(line.substr(at, end - at));
  }
  return result;
}

// Which minima and maxima a register holds the results of, and of which with a negated operand.
struct Facts {
  bool negated = false;
  std::array<bool, 4> picked{}, of_negated{};  // by kind_of()
};

// Of "min.s32", "max.s32", "min.u32", "max.u32" which one; -1: another instruction.
int kind_of(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames = {"min.s32", "max.s32", "min.u32", "max.u32"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<int>(i);
  }
  return -1;
}

class Kernel {
 public:
  // True where the fault shows.
  bool add(const Instruction& i) {
    if (i.registers.empty()) return false;
    Facts& to = facts_[i.registers[0]];
    if (i.name == "neg.s32") to.negated = true;
    bool moves = i.name == "mov.u32" || i.name == "mov.b32" || i.name == "mov.s32";
    if (moves && i.registers.size() > 1) to = joined(to, facts_[i.registers[1]]);
    int kind = kind_of(i.name);
    return kind >= 0 && pick(to, static_cast<size_t>(kind), i.registers);
  }

 private:
  // A register that several instructions set is what any of them makes it.
  static Facts joined(Facts a, const Facts& b) {
    a.negated = a.negated || b.negated;
    for (size_t k = 0; k < a.picked.size(); ++k) {
      a.picked[k] = a.picked[k] || b.picked[k];
      a.of_negated[k] = a.of_negated[k] || b.of_negated[k];
    }
    return a;
  }

  bool pick(Facts& to, size_t kind, const std::vector<std::string_view>& registers) {
    bool negated = false, picked = false, of_negated = false;
    for (size_t r = 1; r < registers.size(); ++r) {
      const Facts& from = facts_[registers[r]];
      negated = negated || from.negated;
      picked = picked || from.picked[kind];
      of_negated = of_negated || from.of_negated[kind];
    }
    to.picked[kind] = true;
    to.of_negated[kind] = to.of_negated[kind] || negated;
    return of_negated || (picked && negated);
  }

  std::map<std::string_view, Facts> facts_;
};

}  // namespace

bool has_negated_minimum_of_three(std::string_view ptx) {
  Kernel kernel;
  while (!ptx.empty()) {
    size_t end = std::min(ptx.find('\n'), ptx.size());
    std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(std::min(end + 1, ptx.size()));
    if (line.find(".entry") != std::string_view::npos) kernel = {};
    if (kernel.add(instruction_of(line))) return true;
  }
  return false;
}

}  // namespace tile::cuda
