// A program's executables: found by what they are compiled for, kept as long as there is room.
#include <algorithm>

#include "backends/fork.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/lean.h"
#include "runtime/engine/own_code.h"
#include "runtime/engine/size_class.h"

namespace tile {
namespace {

// A layout as bytes, for the hash table of executables.
void append_key(std::string& key, DType type, const Shape& shape,
                const std::vector<int64_t>& strides) {
  const int64_t head[] = {static_cast<int64_t>(type), static_cast<int64_t>(shape.size()),
                          static_cast<int64_t>(strides.size())};
  auto put = [&](const int64_t* values, size_t count) {
    key.append(reinterpret_cast<const char*>(values), count * sizeof *values);
  };
  put(head, 3);
  put(shape.data(), shape.size());
  put(strides.data(), strides.size());
}

// Of layouts, from what their keys hold: a product for each number; the last step brings what the
// high bits have of all of them to the low ones, which choose a place.
uint64_t mixed(uint64_t hash, uint64_t value) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  return (hash ^ value) * kOdd;
}
uint64_t mixed(uint64_t hash, DType type, const Shape& shape, const std::vector<int64_t>& strides) {
  hash = mixed(hash, static_cast<uint64_t>(type) + 256 * shape.size());
  for (int64_t n : shape) hash = mixed(hash, static_cast<uint64_t>(n));
  for (int64_t n : strides) hash = mixed(hash, static_cast<uint64_t>(n));
  return hash ^ (hash >> 32);
}

// Of a few numbers, where a call of memcmp costs more than they do.
bool same_numbers(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}
bool same_layout(const InputLayout& known, DType type, const Shape& shape,
                 const std::vector<int64_t>& strides) {
  return known.type.type == type && same_numbers(known.type.shape, shape) &&
         same_numbers(known.strides, strides);
}

uint64_t hash_of(std::span<const TensorView> inputs) {
  uint64_t hash = inputs.size();
  for (const TensorView& v : inputs) hash = mixed(hash, v.type, v.shape, v.strides);
  return hash;
}

uint64_t hash_of(const std::vector<InputLayout>& inputs) {
  uint64_t hash = inputs.size();
  for (const InputLayout& i : inputs) hash = mixed(hash, i.type.type, i.type.shape, i.strides);
  return hash;
}

}  // namespace

// Whoever comes first makes the executable under the entry's own lock; others wait there.
struct LoadedProgram::Entry : MemoryBudget::Item {
  explicit Entry(LoadedProgram& own) : program(own) {}
  // Runs may have just read where it was shown.
  ~Entry() override { retire(std::move(executable)); }
  std::shared_ptr<Item> evicted() noexcept override { return program.evicted(*this); }
  bool used() noexcept override {
    bool shown = program.was_used(*this);
    return Item::used() || shown;
  }

  LoadedProgram& program;
  const std::string* key = nullptr;  // in the table
  bool in_table = true;              // under the program's lock
  std::timed_mutex mutex;
  std::shared_ptr<LiveExecutable> executable;
  std::shared_ptr<Entry> kept;  // itself, so that it stays
};

LoadedProgram::LoadedProgram(std::shared_ptr<Engine> engine, std::shared_ptr<const Program> program,
                             std::shared_ptr<const PassTimes> before)
    : engine_(std::move(engine)),
      program_(std::move(program)),
      times_before_(std::move(before)),
      text_(print(*program_)),
      defaults_(input_defaults(*program_)),
      classes_(std::make_unique<OnceMap<ClassProgram>>(engine_->budget())) {
  for (TensorId id : sizing_parameters(*program_)) {
    auto at = std::find(program_->inputs.begin(), program_->inputs.end(), id);
    sizing_.push_back(static_cast<size_t>(at - program_->inputs.begin()));
  }
}

LoadedProgram::~LoadedProgram() {
  if (locks_are_lost()) {  // in a forked child, which keeps them
    for (auto& [key, entry] : entries_) entry->kept = entry;
    return;
  }
  LockingCall call;
  std::unordered_map<std::string, std::shared_ptr<Entry>> entries;
  {
    std::lock_guard lock(mutex_);
    for (auto& [key, entry] : entries_) entry->in_table = false;
    entries.swap(entries_);
  }
  for (auto& [key, entry] : entries) engine_->budget().remove(*entry);
}

// The value of a parameter that sizes are made of; its default where only the layout is known.
std::optional<int64_t> LoadedProgram::sizing_value(size_t input, const TensorView& view) const {
  if (view.data == nullptr) return defaults_[input]->at(0).i;
  if (view.memory == Memory::host)
    return load_element(static_cast<const std::byte*>(view.data), view.type).i;
  TensorId id = program_->inputs[input];
  fail(Stage::run, "argument", {},
       "the parameter " + program_->tensors[id].name + " sets a size and is in a device's memory",
       "give it in the host's memory");
}

bool LoadedProgram::fits(const Executable& e, std::span<const TensorView> inputs) const {
  if (inputs.size() != e.inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& v = inputs[i];
    if (!same_layout(e.inputs[i], v.type, v.shape, v.strides)) return false;
  }
  return std::all_of(sizing_.begin(), sizing_.end(), [&](size_t i) {
    return sizing_value(i, inputs[i]) == e.inputs[i].type.value;
  });
}

template <class Fits>
std::shared_ptr<const Executable> LoadedProgram::recent(uint64_t hash, const Fits& fits) {
  ReadSection section;
  Slot& slot = recent_[hash % recent_.size()];
  const Executable* known = slot.executable.load(std::memory_order_acquire);
  if (known == nullptr || !fits(*known)) return nullptr;
  engine_->statistics.executable_hits.add();
  slot.used.store(true, std::memory_order_relaxed);
  last_.store(&slot, std::memory_order_release);
  return known->shared_from_this();
}

std::shared_ptr<const Executable> LoadedProgram::executable(
    const std::vector<InputLayout>& inputs) {
  uint64_t hash = hash_of(inputs);
  auto same = [&](const Executable& e) {
    return std::equal(inputs.begin(), inputs.end(), e.inputs.begin(), e.inputs.end(),
                      [](const InputLayout& a, const InputLayout& b) {
                        return same_layout(b, a.type.type, a.type.shape, a.strides) &&
                               a.type.value == b.type.value;
                      });
  };
  if (std::shared_ptr<const Executable> known = recent(hash, same)) return known;
  return found_or_compiled(inputs, hash).executable();
}

LoadedProgram::Found LoadedProgram::found_or_compiled(const std::vector<InputLayout>& inputs,
                                                      uint64_t hash) {
  std::string key;
  for (const InputLayout& i : inputs) append_key(key, i.type.type, i.type.shape, i.strides);
  std::vector<InputLayout> layouts = inputs;
  for (size_t i : sizing_) {
    std::optional<int64_t>& value = layouts.at(i).type.value;
    if (!value) value = defaults_[i]->at(0).i;
    append_key(key, DType::i64, {*value}, {});
  }
  return found_or_compiled(hash, key, [&] { return layouts; });
}

std::shared_ptr<const Executable> LoadedProgram::executable(std::span<const TensorView> inputs) {
  auto same = [&](const Executable& e) { return fits(e, inputs); };
  if (std::shared_ptr<const Executable> known = recent(hash_of(inputs), same)) return known;
  return found_or_compiled(inputs).executable();
}

std::shared_ptr<LiveExecutable> LoadedProgram::live(std::span<const TensorView> inputs) {
  return found_or_compiled(inputs).live;
}

LoadedProgram::Found LoadedProgram::found_or_compiled(std::span<const TensorView> inputs) {
  std::string key;
  for (const TensorView& v : inputs) append_key(key, v.type, v.shape, v.strides);
  for (size_t i : sizing_) append_key(key, DType::i64, {*sizing_value(i, inputs[i])}, {});
  return found_or_compiled(hash_of(inputs), key, [&] { return layouts_of(inputs); });
}

std::vector<InputLayout> LoadedProgram::layouts_of(std::span<const TensorView> inputs) const {
  std::vector<InputLayout> layouts;
  for (const TensorView& v : inputs) layouts.push_back({{v.type, v.shape}, v.strides});
  for (size_t i : sizing_) layouts[i].type.value = sizing_value(i, inputs[i]);
  return layouts;
}

LoadedProgram::Request LoadedProgram::request(std::span<const TensorView> inputs,
                                              std::span<const size_t> constants) const {
  Request request{layouts_of(inputs), copied_constants(engine_, *program_, inputs, constants)};
  for (const ConstantInput& c : request.constants) {
    request.layouts[c.input].constant = true;
    request.layouts[c.input].strides = c.copy.strides;
  }
  return request;
}

std::shared_ptr<const Executable> LoadedProgram::compiled(Request request) {
  LockingCall call;
  bool first = !with_constants_.exchange(true) && kept_last() == nullptr;
  std::shared_ptr<const ClassProgram> sizes = class_of_sizes(request.layouts, first);
  return compile(engine_, program_, request.layouts, first, std::move(request.constants),
                 times_before_.get(), std::move(sizes));
}

std::shared_ptr<LiveExecutable> LoadedProgram::live(Request request) {
  if (request.constants.empty()) {
    return found_or_compiled(request.layouts, hash_of(request.layouts)).live;
  }
  return shown(without_stages(*compiled(std::move(request))));
}

std::shared_ptr<const Executable> LoadedProgram::executable(std::span<const TensorView> inputs,
                                                            std::span<const size_t> constants) {
  return constants.empty() ? executable(inputs) : compiled(request(inputs, constants));
}

std::shared_ptr<LiveExecutable> LoadedProgram::live(std::span<const TensorView> inputs,
                                                    std::span<const size_t> constants) {
  return constants.empty() ? live(inputs) : live(request(inputs, constants));
}

std::shared_ptr<const ClassProgram> LoadedProgram::class_of_sizes(
    const std::vector<InputLayout>& layouts, bool first) {
  std::optional<SizeClass> sizes;
  {
    std::vector<bool> constant;
    for (const InputLayout& layout : layouts) constant.push_back(layout.constant);
    std::lock_guard lock(mutex_);
    sizes = size_class_of(first_.try_emplace(constant, layouts).first->second, layouts);
  }
  bool is_cpu = !engine_->is_reference() && !is_gpu(engine_->target());
  if (first || !sizes || !is_cpu || engine_->options().deterministic) return nullptr;
  return classes_->get(
      sizes->key, [&] { return class_program(*engine_, *program_, *sizes); },
      [](const ClassProgram& made) { return memory_of(made); });
}

std::shared_ptr<LoadedProgram::Entry> LoadedProgram::entry_of(const std::string& key, bool& first) {
  std::lock_guard lock(mutex_);
  first = first || !had_entries_;
  had_entries_ = true;
  auto [at, fresh] = entries_.try_emplace(key);
  if (!at->second) {
    at->second = std::make_shared<Entry>(*this);
    at->second->key = &at->first;
  }
  return at->second;
}

std::shared_ptr<MemoryBudget::Item> LoadedProgram::evicted(Entry& entry) noexcept {
  std::lock_guard lock(mutex_);
  if (!entry.in_table) return nullptr;  // the program goes
  entry.in_table = false;
  for (Slot& slot : recent_) {
    if (slot.entry == &entry) slot.show(nullptr, nullptr);
  }
  auto at = entries_.find(*entry.key);
  std::shared_ptr<Entry> out = std::move(at->second);
  entries_.erase(at);
  return out;
}

bool LoadedProgram::was_used(const Entry& entry) noexcept {
  std::lock_guard lock(mutex_);
  bool used = false;
  for (Slot& slot : recent_) {
    if (slot.entry == &entry) used |= slot.used.exchange(false, std::memory_order_relaxed);
  }
  return used;
}

bool LoadedProgram::is_in_table(const Entry& entry) {
  std::lock_guard lock(mutex_);
  return entry.in_table;
}

// From now on runs find it without a lock. (One that has been evicted meanwhile is not shown.)
void LoadedProgram::show(uint64_t hash, const Entry& entry) {
  std::lock_guard lock(mutex_);
  if (!entry.in_table) return;
  Slot& slot = recent_[hash % recent_.size()];
  slot.show(&entry, &entry.executable->current());
  last_.store(&slot, std::memory_order_release);
}

void LoadedProgram::replaced(const LiveExecutable& live) noexcept {
  std::lock_guard lock(mutex_);
  for (Slot& slot : recent_) {
    if (slot.entry != nullptr && slot.entry->executable.get() == &live) {
      slot.show(slot.entry, &live.current());
    }
  }
}

template <class Layouts>
LoadedProgram::Found LoadedProgram::found_or_compiled(uint64_t hash, const std::string& key,
                                                      const Layouts& layouts) {
  LockingCall call;
  bool first = false;
  for (;;) {
    std::shared_ptr<Entry> entry = entry_of(key, first);
    entry->use();
    std::unique_lock lock = patient_lock(entry->mutex);
    Found found;
    if (entry->executable) {
      engine_->statistics.executable_hits.add();
    } else {
      // While it is made it counts nothing and stays; what could not be made counts its key.
      engine_->budget().remove(*entry);
      if (!is_in_table(*entry)) continue;
      size_t bytes = 2 * key.size() + sizeof(Entry);
      try {
        // The sizes that a program is first run with are the ones that matter most.
        std::vector<InputLayout> given = layouts();
        std::shared_ptr<const ClassProgram> sizes = class_of_sizes(given, first);
        found.stages =
            compile(engine_, program_, given, first, {}, times_before_.get(), std::move(sizes));
        entry->executable = shown(without_stages(*found.stages), weak_from_this());
      } catch (...) {
        engine_->budget().add(*entry, bytes);
        throw;
      }
      engine_->budget().add(*entry, bytes + memory_of(entry->executable->current()));
    }
    show(hash, *entry);
    found.live = entry->executable;
    return found;
  }
}

}  // namespace tile
