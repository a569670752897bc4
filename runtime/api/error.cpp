#include "core/support/diagnostic_json.h"
#include "runtime/api/handles.h"

namespace tile::api {
namespace {

tile_error& shared_memory_error() {
  // Filled at load time: an error that needs no memory when memory is what is missing.
  static tile_error error = [] {
    tile_error e;
    e.stage = TILE_STAGE_RUN;
    e.code = "memory";
    e.message = "out of memory";
    e.rendered = "run error [memory]: out of memory\n";
    e.json = R"({"stage":"run","code":"memory","message":"out of memory"})";
    return e;
  }();
  return error;
}
[[maybe_unused]] const tile_error& kEarly = shared_memory_error();

tile_error* make_error(const Diagnostic& diagnostic, const Source* source, bool of_call) {
  auto error = std::make_unique<tile_error>();
  bool located = source != nullptr && !of_call;
  error->stage = of_call ? TILE_STAGE_API : static_cast<tile_stage>(diagnostic.stage);
  error->code = diagnostic.code;
  error->message = diagnostic.message;
  if (located) {
    Position p = position_of(*source, diagnostic.span.begin);
    error->line = p.line;
    error->column = p.column;
    error->rendered = render(diagnostic, *source);
    error->json = render_json(diagnostic, *source);
  } else {
    error->rendered = "error [" + diagnostic.code + "]: " + diagnostic.message + "\n";
    if (!diagnostic.hint.empty()) error->rendered += " hint: " + diagnostic.hint + "\n";
    error->json = json_of(diagnostic, of_call ? "call" : to_string(diagnostic.stage), "", {0, 0},
                          error->rendered);
  }
  return error.release();
}

// Throws std::bad_alloc.
tile_error* error_of_exception(const Source* source) {
  try {
    throw;
  } catch (const FailureInText& failure) {
    return make_error(failure.diagnostic(), failure.text().get(), false);
  } catch (const Failure& failure) {
    const Diagnostic& d = failure.diagnostic();
    return make_error(d, source, d.code == "argument");
  } catch (const Overflow& overflow) {
    return make_error({Stage::compile, "overflow", overflow.what(), "", {}}, source, false);
  } catch (const InternalError& error) {
    std::string text = std::string("internal error: ") + error.what();
    return make_error({Stage::compile, "internal", text, "please report this program", {}}, source,
                      false);
  } catch (const std::bad_alloc&) {
    return &shared_memory_error();
  } catch (const std::exception& error) {
    return make_error({Stage::compile, "internal", error.what(), "", {}}, source, false);
  } catch (...) {
    return make_error({Stage::run, "argument", "a callback threw", "callbacks must not throw", {}},
                      source, true);
  }
}

}  // namespace

tile_error* error_in_hand(const Source* source) noexcept {
  try {
    return error_of_exception(source);
  } catch (...) {
    return &shared_memory_error();
  }
}

tile_error* argument_error(const char* message) noexcept {
  return guarded(nullptr, [&] { fail(Stage::run, "argument", {}, message); });
}

}  // namespace tile::api

extern "C" {

tile_stage tile_error_stage(const tile_error* error) {
  return error == nullptr ? TILE_STAGE_API : error->stage;
}
const char* tile_error_code(const tile_error* error) {
  return error == nullptr ? "" : error->code.c_str();
}
const char* tile_error_message(const tile_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}
int tile_error_line(const tile_error* error) { return error == nullptr ? 0 : error->line; }
int tile_error_column(const tile_error* error) { return error == nullptr ? 0 : error->column; }
const char* tile_error_rendered(const tile_error* error) {
  return error == nullptr ? "" : error->rendered.c_str();
}
const char* tile_error_json(const tile_error* error) {
  return error == nullptr ? "{}" : error->json.c_str();
}
void tile_error_free(tile_error* error) {
  if (error != nullptr && error != &tile::api::shared_memory_error()) delete error;
}

}  // extern "C"
