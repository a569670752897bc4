#include "tests/random/agreement/shrink.h"

#include <algorithm>
#include <set>

#include "core/interpret/interpret.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"

namespace tile::test {
namespace {

// What neither an output nor a statement needs is left out.
WholeProgram without_dead(const WholeProgram& program) {
  WholeProgram p = program;
  std::set<std::string> needed(p.outputs.begin(), p.outputs.end());
  for (const WholeGradient& g : p.gradients) {
    needed.insert(g.of);
    needed.insert(g.wrt.begin(), g.wrt.end());
  }
  for (size_t i = p.statements.size(); i-- > 0;) {
    if (!needed.contains(p.statements[i].result)) {
      p.statements.erase(p.statements.begin() + static_cast<ptrdiff_t>(i));
      continue;
    }
    for (const std::string& word : words_of(p.statements[i].text)) needed.insert(word);
  }
  std::erase_if(p.inputs, [&](const WholeInput& i) { return !needed.contains(i.name); });
  return p;
}

// The values that the reference interpreter gives a statement's result.
HostTensor value_of(const WholeProgram& program, const std::string& name) {
  WholeProgram p = program;
  p.outputs = {name};
  p.gradients.clear();
  WholeCase c = case_of(without_dead(p));
  return interpret(tile::bind(*c.program, c.drawn.types), c.drawn.inputs).outputs.at(0);
}

class Shrinking {
 public:
  Shrinking(WholeProgram program, const StillFails& fails, int most)
      : best_(std::move(program)), fails_(fails), left_(most) {}

  WholeProgram run() {
    bool smaller = true;
    while (smaller && left_ > 0) {
      smaller = fewer_outputs();
      smaller = fewer_gradients() || smaller;
      smaller = statements_as_inputs() || smaller;
      smaller = statements_skipped() || smaller;
      smaller = shorter_texts() || smaller;
      smaller = smaller_sizes() || smaller;
      smaller = plainer_values() || smaller;
    }
    return best_;
  }

 private:
  bool accepted(WholeProgram candidate) {
    if (left_ <= 0) return false;
    try {
      candidate = without_dead(candidate);
      if (candidate.statements.empty() || candidate.outputs.empty()) return false;
      --left_;
      if (!fails_(candidate)) return false;
    } catch (const Failure&) {
      return false;  // no program
    }
    best_ = std::move(candidate);
    return true;
  }

  bool fewer_outputs() {
    bool any = false;
    for (size_t i = best_.outputs.size(); i-- > 0 && best_.outputs.size() > 1;) {
      WholeProgram p = best_;
      p.outputs.erase(p.outputs.begin() + static_cast<ptrdiff_t>(i));
      any = accepted(p) || any;
    }
    // An earlier statement in place of the output.
    for (size_t i = 0; i + 1 < best_.statements.size() && best_.gradients.empty(); ++i) {
      WholeProgram p = best_;
      p.outputs = {p.statements[i].result};
      if (p.outputs == best_.outputs) break;
      if (accepted(p)) return true;
    }
    return any;
  }

  bool fewer_gradients() {
    if (best_.gradients.empty()) return false;
    WholeProgram p = best_;
    p.gradients.pop_back();
    if (accepted(p)) return true;
    for (size_t i = best_.gradients.back().wrt.size(); i-- > 0;) {
      p = best_;
      std::vector<std::string>& wrt = p.gradients.back().wrt;
      if (wrt.size() < 2) return false;
      wrt.erase(wrt.begin() + static_cast<ptrdiff_t>(i));
      if (accepted(p)) return true;
    }
    return false;
  }

  // A statement becomes an input of its values; what it alone needed goes.
  bool statements_as_inputs() {
    bool any = false;
    for (size_t i = best_.statements.size(); i-- > 0;) {
      if (i >= best_.statements.size()) continue;
      const WholeStatement s = best_.statements[i];
      if (std::find(best_.outputs.begin(), best_.outputs.end(), s.result) != best_.outputs.end()) {
        continue;
      }
      try {
        WholeProgram p = best_;
        HostTensor values = value_of(p, s.result);
        p.statements.erase(p.statements.begin() + static_cast<ptrdiff_t>(i));
        p.inputs.push_back({s.result, values.type, s.dims, values});
        any = accepted(p) || any;
      } catch (const Failure&) {
      }
    }
    return any;
  }

  // What reads a statement's result reads another tensor instead.
  bool statements_skipped() {
    bool any = false;
    for (size_t i = best_.statements.size(); i-- > 0;) {
      if (i >= best_.statements.size()) continue;
      const WholeStatement s = best_.statements[i];
      for (const std::string& word : words_of(s.text)) {
        bool tensor = best_.input(word) != nullptr || best_.statement(word) != nullptr;
        if (!tensor || word == s.result) continue;
        if (accepted(reading(s.result, word))) {
          any = true;
          break;
        }
      }
    }
    return any;
  }
  WholeProgram reading(const std::string& from, const std::string& to) const {
    WholeProgram p = best_;
    for (WholeStatement& s : p.statements) {
      if (s.result != from) s.text = with_words(s.text, {{from, to}});
    }
    for (WholeGradient& g : p.gradients) {
      if (g.of == from) g.of = to;
    }
    for (std::string& output : p.outputs) {
      bool made = output == from && best_.statement(to) != nullptr;
      if (made) output = to;
    }
    return p;
  }

  // Without constraints and defaults.
  bool shorter_texts() {
    bool any = false;
    for (size_t i = 0; i < best_.statements.size(); ++i) {
      for (const char* part : {" default ", ", "}) {
        if (i >= best_.statements.size()) return any;
        std::string text = best_.statements[i].text;
        size_t body = text.rfind(')'), at = text.rfind(part);
        if (body == std::string::npos || at == std::string::npos || at < body) continue;
        WholeProgram p = best_;
        p.statements[i].text = text.substr(0, at);
        any = accepted(p) || any;
      }
    }
    return any;
  }

  bool smaller_sizes() {
    bool any = false;
    for (const auto& [name, size] : Sizes(best_.sizes)) {
      for (int64_t to : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{5}, size / 2, size - 1}) {
        if (to < 0 || to >= best_.sizes.at(name)) continue;
        Sizes sizes = best_.sizes;
        sizes[name] = to;
        try {
          if (accepted(resized(best_, sizes))) any = true;
        } catch (const Failure&) {
        }
      }
    }
    return any;
  }

  // All of an input's elements 1, or 1, 2, 3, …
  bool plainer_values() {
    if (plain_) return false;
    plain_ = true;
    bool any = false;
    for (size_t i = 0; i < best_.inputs.size(); ++i) {
      for (int64_t most : {1, 3}) {
        if (i >= best_.inputs.size()) break;
        WholeProgram p = best_;
        HostTensor& values = p.inputs[i].values;
        for (int64_t e = 0; e < values.count(); ++e) {
          values.set(e, integer_scalar(1 + e % most, values.type));
        }
        if (accepted(p)) {
          any = true;
          break;
        }
      }
    }
    return any;
  }

  WholeProgram best_;
  const StillFails& fails_;
  int left_;
  bool plain_ = false;
};

}  // namespace

WholeProgram shrunk(const WholeProgram& program, const StillFails& fails, int most) {
  return Shrinking(program, fails, most).run();
}

}  // namespace tile::test
