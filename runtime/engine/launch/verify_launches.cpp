#include "runtime/engine/launch/verify_launches.h"

#include <algorithm>
#include <map>

#include "core/ir/analysis/uses.h"
#include "core/support/checked.h"
#include "runtime/engine/steps/loop_run.h"

namespace tile {
namespace {

class LaunchVerifier {
 public:
  explicit LaunchVerifier(const Executable& e)
      : e_(e), p_(e.program), tensors_(e.program.tensors.size()) {}

  void run() {
    check(e_.places.size() == tensors_.size(), "a plan of another program");
    for (size_t id = 0; id < tensors_.size(); ++id) {
      const Place& source = place(TensorId(id));
      bool there = source.kind == e_.places[id].kind && source.at == e_.places[id].at;
      check(there, p_.tensors[id].name + " is not where its source is");
    }
    for (TensorId id : p_.inputs) at(id).known = true;
    for (size_t id = 0; id < tensors_.size(); ++id) {
      tensors_[id].known = tensors_[id].known || p_.tensors[id].constant != nullptr;
    }
    for (step_ = 0; step_ < e_.launches.size(); ++step_) launch(e_.launches[step_]);
    results();
    arena();
  }

 private:
  struct Use {
    bool known = false;
    size_t first = SIZE_MAX, last = 0;  // launches
  };
  static void check(bool holds, const std::string& what) {
    if (!holds) throw InternalError("launches: " + what);
  }
  TensorId storage(TensorId id) const { return storage_of(p_, id); }
  Use& at(TensorId id) { return tensors_[storage(id)]; }
  const Place& place(TensorId id) const { return e_.places[storage(id)]; }
  const std::string& name(TensorId id) const { return p_.tensors[id].name; }

  void touch(TensorId id) {
    check(place(id).kind != Place::Kind::none, name(id) + " has no place");
    at(id).first = std::min(at(id).first, step_);
    at(id).last = step_;
  }
  void read(TensorId id) {
    check(at(id).known, name(id) + " is read before it is written");
    touch(id);
  }
  void write(TensorId id) {
    Place::Kind kind = place(id).kind;
    bool given = kind == Place::Kind::input || kind == Place::Kind::constant;
    check(!given && !at(id).known, name(id) + " is written again");
    at(id).known = true;
    touch(id);
  }
  // Whether each of the launch's tensors is written. What was made from its record has no nests.
  static std::vector<bool> written_by(const Launch& launch) {
    if (launch.sort) {
      check(launch.arguments == std::vector{launch.sort->source, launch.sort->result},
            "a sort of other tensors");
      return {false, true};
    }
    if (launch.loop) {
      std::vector<bool> written(launch.arguments.size(), false);
      check(written.size() >= 2, "a loop without a state");
      written.back() = true;
      return written;
    }
    std::vector<bool> written;
    for (const nest::Buffer& b : launch.nest->buffers) written.push_back(b.written);
    const Code::Takes* takes = launch.code ? launch.code->takes() : nullptr;
    if (takes != nullptr) {
      size_t given = launch.arguments.size() + launch.prepared.size();
      check(takes->written.size() == given, "a kernel takes another number of arguments");
      check(takes->parameters == launch.parameters.size(), "a kernel takes other parameters");
      written = takes->written;
    }
    check(written.size() >= launch.arguments.size(), "a launch without buffers");
    for (size_t i = launch.arguments.size(); i < written.size(); ++i)
      check(!written[i] || takes == nullptr, "a packed constant is written");
    for (const PrepackedCopy& p : launch.prepared) {
      const Code::Takes* copies = p.code ? p.code->takes() : nullptr;
      bool one_to_one = copies == nullptr || copies->written == std::vector{false, true};
      check(one_to_one, "what packs a constant is another kernel");
    }
    return written;
  }

  // The step takes what the loop is given, and finds room for a second state.
  void loop(const Launch& launch) const {
    const Executable& step = *launch.loop->step;
    check(launch.loop->trips >= 1, "a loop without trips");
    check(step.program.inputs.size() + 1 == launch.arguments.size() &&
              step.program.outputs.size() == 1,
          "a step with other tensors than its loop");
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      const BoundTensor& given = p_.tensors[launch.arguments[i]];
      const BoundTensor& taken =
          step.bound
              .tensors[i < step.bound.inputs.size() ? step.bound.inputs[i] : step.bound.outputs[0]];
      check(given.type == taken.type && element_count(given.shape) == element_count(taken.shape),
            given.name + " is not what a step takes");
    }
    check(fits_loop(*launch.loop, e_.workspace_bytes), "a loop without room for its states");
    verify_launches(step);
  }

  // Parts lie inside their tensors and are only read.
  void parts(const Launch& launch, const std::vector<bool>& written) const {
    if (launch.begins.empty()) return;
    check(launch.begins.size() == launch.arguments.size() && !launch.sort && !launch.loop,
          "parts of other arguments");
    for (size_t i = 0; i < launch.begins.size(); ++i) {
      const BoundTensor& t = p_.tensors[launch.arguments[i]];
      size_t bytes = static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
      check(launch.begins[i] == 0 || launch.begins[i] < bytes, t.name + " begins behind its end");
      check(launch.begins[i] == 0 || !written.at(i), t.name + " is written in part");
      if (!launch.kernel) continue;
      int64_t part = element_count(launch.kernel->tensors[launch.arguments[i]].shape);
      check(launch.begins[i] + static_cast<size_t>(part) * byte_size(t.type) <= bytes,
            "a part of " + t.name + " ends behind its end");
    }
  }

  void launch(const Launch& launch) {
    if (launch.loop) loop(launch);
    std::vector<TensorId> writes;
    std::vector<bool> written = written_by(launch);
    parts(launch, written);
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      TensorId id = launch.arguments[i];
      if (written.at(i)) {
        writes.push_back(storage(id));
      } else {
        read(id);
      }
    }
    for (TensorId id : writes) {
      auto names = std::count_if(launch.arguments.begin(), launch.arguments.end(),
                                 [&](TensorId other) { return storage(other) == id; });
      check(names == 1, name(id) + " is written under one name and used under another");
      write(id);
    }
  }

  void results() {
    std::vector<size_t> makers(p_.outputs.size(), 0);
    for (size_t id = 0; id < tensors_.size(); ++id) {
      if (p_.tensors[id].view_of || e_.places[id].kind != Place::Kind::output) continue;
      check(e_.places[id].at < makers.size(), "a result that is not there");
      ++makers[e_.places[id].at];
    }
    for (const OutputCopy& copy : e_.copies) {
      ++makers.at(copy.output);
      step_ = e_.launches.size();
      read(copy.from);
    }
    for (size_t i = 0; i < makers.size(); ++i) {
      check(makers[i] == 1, "a result that is made by none or several");
      check(at(p_.outputs[i]).known, name(p_.outputs[i]) + " is never written");
    }
  }

  struct Region {
    size_t first, last, begin, end;
    TensorId tensor;
  };
  void arena() {
    std::vector<Region> regions;
    auto add = [&](TensorId id, size_t first, size_t last, size_t begin) {
      const BoundTensor& t = p_.tensors[id];
      int64_t bytes = checked_mul(element_count(t.shape), static_cast<int64_t>(byte_size(t.type)));
      size_t end = begin + static_cast<size_t>(bytes);
      check(end <= e_.arena_bytes, t.name + " ends behind the arena");
      if (bytes > 0) regions.push_back({first, last, begin, end, id});
    };
    for (size_t id = 0; id < tensors_.size(); ++id) {
      bool here = e_.places[id].kind == Place::Kind::arena && !p_.tensors[id].view_of &&
                  tensors_[id].first != SIZE_MAX;
      bool dense = std::any_of(e_.densified.begin(), e_.densified.end(),
                               [&](const auto& d) { return p_.inputs[d.first] == TensorId(id); });
      if (here && !dense) {
        add(TensorId(id), tensors_[id].first, tensors_[id].last, e_.places[id].at);
      }
    }
    for (auto [input, offset] : e_.densified) {
      add(p_.inputs.at(input), 0, e_.launches.size(), offset);
    }
    never_shared(std::move(regions));
  }

  // In the order of their first launches, the live ones by where they begin: neighbours suffice,
  // since those that are there share nothing.
  void never_shared(std::vector<Region> regions) const {
    std::stable_sort(regions.begin(), regions.end(),
                     [](const Region& a, const Region& b) { return a.first < b.first; });
    std::map<size_t, const Region*> live;
    std::multimap<size_t, size_t> ends;  // last launch, begin
    for (const Region& r : regions) {
      while (!ends.empty() && ends.begin()->first < r.first) {
        live.erase(ends.begin()->second);
        ends.erase(ends.begin());
      }
      auto next = live.lower_bound(r.begin);
      bool over = next != live.end() && next->second->begin < r.end;
      bool under = next != live.begin() && std::prev(next)->second->end > r.begin;
      check(!over && !under, name(r.tensor) + " shares memory with a tensor that is live");
      live[r.begin] = &r;
      ends.emplace(r.last, r.begin);
    }
  }

  const Executable& e_;
  const BoundProgram& p_;
  IdVector<TensorId, Use> tensors_;  // by storage
  size_t step_ = 0;
};

}  // namespace

void verify_launches(const Executable& executable) { LaunchVerifier(executable).run(); }

}  // namespace tile
