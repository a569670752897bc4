// Tile JIT for C++17 hosts: owning handles over tile.h. Every failing call throws tile::jit::Error;
// the thread rules are those of tile.h.
#ifndef TILE_TILE_HPP
#define TILE_TILE_HPP

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tile/tile.h"

namespace tile::jit {

// A failed call: what() is the text for people, with the source line and a caret.
class Error : public std::runtime_error {
 public:
  explicit Error(tile_error* error)
      : std::runtime_error(tile_error_rendered(error)), error_(error, tile_error_free) {}
  tile_stage stage() const { return tile_error_stage(error_.get()); }
  std::string code() const { return tile_error_code(error_.get()); }
  std::string message() const { return tile_error_message(error_.get()); }
  int line() const { return tile_error_line(error_.get()); }
  int column() const { return tile_error_column(error_.get()); }

 private:
  std::shared_ptr<tile_error> error_;
};

inline void check(tile_error* error) {
  if (error != nullptr) throw Error(error);
}

template <class Handle, void (*Free)(Handle*)>
struct Deleter {
  void operator()(Handle* handle) const { Free(handle); }
};
template <class Handle, void (*Free)(Handle*)>
using Owned = std::unique_ptr<Handle, Deleter<Handle, Free>>;

// A dense or strided view of host memory as a DLTensor that owns its shape. The data is the
// caller's.
class View {
 public:
  View(void* data, DLDataType type, std::vector<int64_t> shape, std::vector<int64_t> strides = {})
      : shape_(std::move(shape)), strides_(std::move(strides)), data_(data), type_(type) {}
  // The pointers inside refer to this view: it has to outlive the use of the result.
  DLTensor tensor() const {
    DLTensor t{};
    t.data = data_;
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<int32_t>(shape_.size());
    t.dtype = type_;
    t.shape = const_cast<int64_t*>(shape_.data());
    t.strides = strides_.empty() ? nullptr : const_cast<int64_t*>(strides_.data());
    return t;
  }

 private:
  std::vector<int64_t> shape_, strides_;
  void* data_;
  DLDataType type_;
};
inline View view(float* data, std::vector<int64_t> shape) {
  return View(data, {kDLFloat, 32, 1}, std::move(shape));
}
inline View view(double* data, std::vector<int64_t> shape) {
  return View(data, {kDLFloat, 64, 1}, std::move(shape));
}
inline View view(int32_t* data, std::vector<int64_t> shape) {
  return View(data, {kDLInt, 32, 1}, std::move(shape));
}
inline View view(int64_t* data, std::vector<int64_t> shape) {
  return View(data, {kDLInt, 64, 1}, std::move(shape));
}
inline View view(uint8_t* data, std::vector<int64_t> shape) {
  return View(data, {kDLUInt, 8, 1}, std::move(shape));
}

namespace detail {
// Views as the arrays that the C calls take.
class Tensors {
 public:
  explicit Tensors(const std::vector<View>& views) {
    tensors_.reserve(views.size());
    for (const View& v : views) tensors_.push_back(v.tensor());
    for (DLTensor& t : tensors_) pointers_.push_back(&t);
  }
  DLTensor* const* data() const { return pointers_.data(); }
  size_t size() const { return pointers_.size(); }

 private:
  std::vector<DLTensor> tensors_;
  std::vector<DLTensor*> pointers_;
};
}  // namespace detail

class Executable {
 public:
  explicit Executable(tile_executable* handle) : handle_(handle) {}
  tile_executable* get() const { return handle_.get(); }

  void run(const std::vector<View>& inputs, const std::vector<View>& outputs,
           const tile_run_options* options = nullptr) const {
    detail::Tensors in(inputs), out(outputs);
    check(tile_executable_run(get(), in.data(), in.size(), out.data(), out.size(), options));
  }
  // Steps in time; see tile_executable_run_steps.
  void run_steps(uint64_t steps, const std::vector<tile_feed>& feeds,
                 const std::vector<View>& inputs, const std::vector<View>& outputs,
                 const tile_run_options* options = nullptr) const {
    detail::Tensors in(inputs), out(outputs);
    check(tile_executable_run_steps(get(), steps, feeds.data(), feeds.size(), in.data(), in.size(),
                                    out.data(), out.size(), options));
  }
  std::vector<int64_t> output_shape(size_t i) const {
    DLTensor t;
    check(tile_executable_output(get(), i, &t));
    return std::vector<int64_t>(t.shape, t.shape + t.ndim);
  }
  DLDataType output_type(size_t i) const {
    DLTensor t;
    check(tile_executable_output(get(), i, &t));
    return t.dtype;
  }
  size_t workspace_size() const {
    size_t bytes = 0;
    check(tile_executable_workspace_size(get(), &bytes));
    return bytes;
  }
  // Whether a run may be given output `output` in the memory of input `input`.
  bool may_donate(size_t input, size_t output) const {
    int allowed = 0;
    check(tile_executable_may_donate(get(), input, output, &allowed));
    return allowed != 0;
  }
  // Bytes that Engine::load takes; see tile_executable_save.
  std::vector<std::byte> save() const {
    void* bytes = nullptr;
    size_t size = 0;
    check(tile_executable_save(get(), &bytes, &size));
    std::unique_ptr<void, void (*)(void*)> owned(bytes, tile_bytes_free);
    const auto* first = static_cast<const std::byte*>(bytes);
    return std::vector<std::byte>(first, first + size);
  }
  void tune(double budget_ms) { check(tile_executable_tune(get(), budget_ms)); }
  void tune(const tile_tune_options& options) { check(tile_executable_tune_with(get(), &options)); }
  std::string emit(const char* stage) const {
    char* text = nullptr;
    check(tile_executable_emit(get(), stage, &text));
    return taken(text);
  }
  // JSON; see tile_executable_pass_times.
  std::string pass_times() const {
    char* text = nullptr;
    check(tile_executable_pass_times(get(), &text));
    return taken(text);
  }
  std::string explain() const {
    char* text = nullptr;
    check(tile_executable_explain(get(), &text));
    return taken(text);
  }

 private:
  static std::string taken(char* text) {
    std::unique_ptr<char, void (*)(char*)> owned(text, tile_string_free);
    return text;
  }
  Owned<tile_executable, tile_executable_free> handle_;
};

// A compilation under way on a thread of the library.
class Compilation {
 public:
  explicit Compilation(tile_compilation* handle) : handle_(handle) {}
  tile_compilation* get() const { return handle_.get(); }
  // Whether its callback has returned; waits for it, at most so many milliseconds (negative: for
  // ever).
  bool wait(double timeout_ms = -1) const {
    int done = 0;
    check(tile_compilation_wait(get(), timeout_ms, &done));
    return done != 0;
  }
  void cancel() const { tile_compilation_cancel(get()); }

 private:
  Owned<tile_compilation, tile_compilation_free> handle_;
};

class Program {
 public:
  explicit Program(tile_program* handle) : handle_(handle) {}
  tile_program* get() const { return handle_.get(); }

  std::string text() const { return tile_program_text(get()); }
  std::vector<std::string> inputs() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < tile_program_input_count(get()); ++i) {
      names.emplace_back(tile_program_input_name(get(), i));
    }
    return names;
  }
  std::vector<std::string> outputs() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < tile_program_output_count(get()); ++i) {
      names.emplace_back(tile_program_output_name(get(), i));
    }
    return names;
  }
  // `constants`: the numbers of inputs that stay the same (tile_compile_options).
  Executable compile(const std::vector<View>& inputs,
                     const std::vector<size_t>& constants = {}) const {
    detail::Tensors in(inputs);
    tile_compile_options options{};
    options.struct_size = sizeof options;
    options.constants = constants.data();
    options.constant_count = constants.size();
    tile_executable* made = nullptr;
    check(tile_program_compile_with(get(), in.data(), in.size(), &options, &made));
    return Executable(made);
  }
  // Compiles on a thread of the library, which then calls done(executable, error) once: the first
  // is empty where the second is not null. What `done` throws ends the process.
  Compilation compile_async(
      const std::vector<View>& inputs,
      std::function<void(std::optional<Executable>, std::shared_ptr<Error>)> done,
      const std::vector<size_t>& constants = {}) const {
    using Done = decltype(done);
    detail::Tensors in(inputs);
    tile_compile_options options{};
    options.struct_size = sizeof options;
    options.constants = constants.data();
    options.constant_count = constants.size();
    auto callback = [](void* user, tile_error* error, tile_executable* made) {
      std::unique_ptr<Done> call(static_cast<Done*>(user));
      std::optional<Executable> executable;
      if (made != nullptr) executable.emplace(made);
      (*call)(std::move(executable), error == nullptr ? nullptr : std::make_shared<Error>(error));
    };
    auto user = std::make_unique<Done>(std::move(done));
    tile_compilation* handle = nullptr;
    check(tile_program_compile_async(get(), in.data(), in.size(), &options, callback, user.get(),
                                     &handle));
    static_cast<void>(user.release());  // the callback's
    return Compilation(handle);
  }
  void run(const std::vector<View>& inputs, const std::vector<View>& outputs,
           const tile_run_options* options = nullptr) const {
    detail::Tensors in(inputs), out(outputs);
    check(tile_program_run(get(), in.data(), in.size(), out.data(), out.size(), options));
  }
  Program differentiate(const std::string& of, const std::vector<std::string>& wrt) const {
    std::vector<const char*> names;
    for (const std::string& name : wrt) names.push_back(name.c_str());
    tile_program* made = nullptr;
    check(tile_program_differentiate(get(), of.c_str(), names.data(), names.size(), &made));
    return Program(made);
  }
  Program with_gradient(const std::string& of, const Program& gradient) const {
    tile_program* made = nullptr;
    check(tile_program_with_gradient(get(), of.c_str(), gradient.get(), &made));
    return Program(made);
  }

 private:
  Owned<tile_program, tile_program_free> handle_;
};

class Engine {
 public:
  Engine() : Engine(nullptr) {}
  explicit Engine(const tile_engine_options& options) : Engine(&options) {}
  tile_engine* get() const { return handle_.get(); }

  std::string device() const { return tile_engine_device(get()); }
  Program parse(const char* language, std::string_view text, const char* name = nullptr) const {
    tile_program* made = nullptr;
    check(tile_program_parse(get(), language, name, text.data(), text.size(), &made));
    return Program(made);
  }
  // See tile_executable_load: the bytes are machine code.
  Executable load(const void* bytes, size_t size) const {
    tile_executable* made = nullptr;
    check(tile_executable_load(get(), bytes, size, &made));
    return Executable(made);
  }
  tile_engine_statistics statistics() const {
    tile_engine_statistics s{};
    s.struct_size = sizeof s;
    check(tile_engine_statistics_get(get(), &s));
    return s;
  }
  // What tuning found on processors like this one, as lines; see tile_engine_records_export.
  std::string export_records() const {
    char* text = nullptr;
    check(tile_engine_records_export(get(), &text));
    std::unique_ptr<char, void (*)(char*)> owned(text, tile_string_free);
    return text;
  }
  size_t import_records(std::string_view lines) const {
    size_t imported = 0;
    check(tile_engine_records_import(get(), lines.data(), lines.size(), &imported));
    return imported;
  }

 private:
  explicit Engine(const tile_engine_options* options) {
    tile_engine* made = nullptr;
    check(tile_engine_create(options, &made));
    handle_.reset(made);
  }
  Owned<tile_engine, tile_engine_free> handle_;
};

}  // namespace tile::jit
#endif
