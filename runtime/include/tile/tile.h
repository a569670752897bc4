/* Tile JIT: the C interface (C99).
 *
 * Errors. Every call that can fail returns a tile_error*: NULL is success; otherwise the caller
 * owns the error and frees it. Nothing is printed, nothing aborts, no C++ exception crosses this
 * interface. On failure output arguments are set to NULL or left as they were.
 *
 * Threads. A tile_engine may be used from any number of threads at once. A tile_program is
 * immutable and may be shared. A tile_executable is immutable after tile_program_compile;
 * tile_executable_run may be called from several threads at once, each with its own output tensors.
 * A tile_error belongs to one thread at a time. Handles are reference counted: freeing an engine
 * while its programs or executables live is allowed; they keep what they need.
 *
 * Structs that start with struct_size: set it to sizeof the struct; zero for every other field
 * means the default. Later versions add fields at the end.
 */
#ifndef TILE_TILE_H
#define TILE_TILE_H

#include <stddef.h>
#include <stdint.h>

#include "tile/dlpack.h"
#include "tile/transport.h"

#if defined(_WIN32)
#define TILE_API
#else
#define TILE_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TILE_VERSION_MAJOR 0
#define TILE_VERSION_MINOR 2
#define TILE_VERSION_PATCH 0

typedef struct tile_engine tile_engine;
typedef struct tile_program tile_program;
typedef struct tile_executable tile_executable;
typedef struct tile_inference tile_inference;
typedef struct tile_compilation tile_compilation;
typedef struct tile_mesh tile_mesh;
typedef struct tile_error tile_error;

/* major * 10000 + minor * 100 + patch of the library that is linked. */
TILE_API uint32_t tile_version(void);

/* ---- Errors ---------------------------------------------------------------------------------- */

typedef enum {
  TILE_STAGE_PARSE = 0,   /* the text alone is wrong */
  TILE_STAGE_BIND = 1,    /* shapes, element types or sizes do not fit */
  TILE_STAGE_COMPILE = 2, /* limits, assigned cells, failures of a backend */
  TILE_STAGE_RUN = 3,     /* execution */
  TILE_STAGE_API = 4      /* a call's own arguments (a NULL handle, an unknown name) */
} tile_stage;

TILE_API tile_stage tile_error_stage(const tile_error* error);

/* The kind of the error, a stable word; later versions may have further ones.
 *
 *   The text
 *   "lexical"      characters that begin no word, a comment that does not end
 *   "encoding"     a text that is not UTF-8
 *   "number"       a number that is none or that no type holds
 *   "syntax"       another symbol was expected
 *   "name"         an undefined, reserved, repeated or unused name
 *   "function"     an unknown function, or one that cannot stand there
 *   "arity"        too many or too few arguments
 *   "type"         element types, or types of MFG and Lift, that do not fit
 *   "linearity"    an index expression that is not linear
 *   "recursion"    a function of MFG that calls itself
 *   "bounds"       sizes of a definition of MFG that are missing or not allowed
 *   "boundary"     an unknown boundary rule of Lift
 *   "accumulator"  an array that Lift's Reduce cannot carry
 *   "split"        a length of Lift that another number must divide
 *   "stride"       the same of Lift's stride
 *   Shapes and sizes
 *   "inputs"       another number of inputs than the program's
 *   "rank"         a number of dimensions that does not fit; of a run on a mesh: a rank that failed
 *   "mesh"         an axis that a mesh has not, or has twice or without ranks
 *   "layout"       a layout or a cut that does not fit its tensor or statement
 *   "dimension"    a size that is not the declared one, or not known
 *   "size"         a negative or forbidden size, or an expression that is no size
 *   "shape"        shapes that a function cannot take together
 *   "broadcast"    shapes that do not broadcast
 *   "axis"         an axis that the tensor does not have
 *   "slice"        a step or a range that selects nothing sensible
 *   "index"        an index expression or position that is not possible
 *   "division"     a size or an index that divides by zero
 *   "overflow"     a size or an index that needs more than 64 bits
 *   "unbounded"    an index that nothing bounds
 *   "default"      a default tensor of another shape or type
 *   "derivative"   a statement whose derivative needs what the text leaves open
 *   "gradient"     a gradient of what has none, or a seed that does not fit
 *   Compiling
 *   "limit"        more than a limit of the engine or of the language allows
 *   "overlap"      two points that assign one cell; of a run: tensors that share memory
 *   "backend"      the backend cannot be had, or LLVM failed
 *   "target"       an unknown processor or GPU, or one that is not here
 *   "stage"        a stage that the backend does not print
 *   "unsupported"  what the backend cannot do
 *   "block"        a GPU's block of more threads than it takes
 *   "shared"       a GPU's block of more shared memory than it has
 *   "nvrtc"        the compiler of CUDA is not found or failed
 *   "sass"         the disassembler of GPU code is not found or failed
 *   "agreement"    ranks of a mesh were given other texts, layouts, shapes or builds
 *   "saved"        a saved executable that is damaged, or of another build of the library
 *   "internal"     a fault of the library's own; please report it
 *   Running
 *   "memory"       memory that the process or the device does not get: the same call may succeed
 *                  later; or more than the engine's memory_limit, which the hint then names
 *   "cancelled"    tile_cancel_callback ended the call
 *   "fork"         the process was forked while its parent was in a call of the library
 *   "transport"    the plug-in of a mesh's transport cannot be used
 *   "nccl"         NCCL failed in an exchange between GPUs
 *   "device"       there is no such GPU, or it is too old
 *   "driver"       NVIDIA's driver is not found or too old
 *   "launch"       a kernel failed on the device
 *   "cuda"         another function of the driver failed
 *   "file"         the files of a shared directory (tile_tune_options) cannot be read or written
 *   Warnings alone, see tile_program_warnings
 *   "unread"       an input that nothing reads, or a statement that no output needs
 *   "truncated"    a quotient of whole numbers that is 0
 *   "empty"        a contraction without any point, or an output without elements
 *   "aligned"      broadcasting that fits for these shapes by chance
 *   "always"       a condition that holds at every point anyway
 *   "unreached"    cells that no point reaches
 *   "range"        a parameter's value outside its declared range, which is forced into it
 *   Calls
 *   "argument"     an argument of the call, such as a NULL handle or a tensor that does not fit */
TILE_API const char* tile_error_code(const tile_error* error);
TILE_API const char* tile_error_message(const tile_error* error);
/* Position in the program text, counted from 1; 0 where an error has none. */
TILE_API int tile_error_line(const tile_error* error);
TILE_API int tile_error_column(const tile_error* error);
/* The whole error as text for people: position, message, source line with a caret, hint. */
TILE_API const char* tile_error_rendered(const tile_error* error);
/* The same as one JSON object on one line: severity, stage ("call" of TILE_STAGE_API), code,
 * message, hint, file, line, column (0 where an error has none) and text, which is the rendered
 * one. */
TILE_API const char* tile_error_json(const tile_error* error);
TILE_API void tile_error_free(tile_error* error); /* NULL is allowed */

/* ---- Engine ---------------------------------------------------------------------------------- */

typedef enum { TILE_LOG_ERROR = 0, TILE_LOG_WARNING = 1, TILE_LOG_INFO = 2 } tile_log_level;
/* Called from any thread; must not call back into the library. */
typedef void (*tile_log_callback)(void* user, tile_log_level level, const char* message);
/* Asked every few milliseconds during long work, on the thread that called: parsing,
 * differentiating, compiling, tuning and running. Non-zero ends the call within 100 ms on all its
 * threads, with an error of code "cancelled" and the stage that it was in. What the call was to
 * make is not made, outputs of a run hold anything, everything else is as before and can be used.
 * What has begun is waited for on a CPU until the machine code of one kernel is made, on a GPU
 * until one kernel is done (its compiler goes on by itself, and the process waits for it at its
 * end). It must not call back into the library, nor throw. */
typedef int (*tile_cancel_callback)(void* user);

/* A host's memory. Both functions are called from any thread, several at once; they must not throw
 * and not call back into the library. */
typedef struct {
  size_t struct_size;
  /* `bytes` (never 0) from an address that `alignment`, a power of 2, divides: 64 of the host, 256
   * of a device; NULL if there are none, which ends the call with an error of code "memory" as long
   * as nothing else is done for it. Memory that is not so aligned is given back, and the call ends
   * with an error of code "argument". `stream`: of a device, the CUstream in whose order the memory
   * is used; NULL of the host. */
  void* (*allocate)(void* user, size_t bytes, size_t alignment, void* stream);
  /* Takes back what allocate gave, with the same bytes. Of a device: work that `stream` has been
   * given may still use it, so that it may be given away again in the order of that stream alone
   * (caching allocators of frameworks do this). */
  void (*release)(void* user, void* memory, size_t bytes, void* stream);
  void* user;
} tile_allocator;

/* A host's threads: calls task(context, i) once for each i in [0, count), on any threads, and
 * returns when these calls have returned. Calls that are left out, repeated or made on one thread
 * alone cost time, not results; a call after the return does nothing. It must not throw. While it
 * waits on the thread that called the library it may run other work of the host there, other calls
 * of the library too. `count` is at most the engine's number of threads. */
typedef void (*tile_task)(void* context, size_t i);
typedef void (*tile_parallel_for_callback)(void* user, size_t count, tile_task task, void* context);

typedef struct {
  size_t struct_size;
  const char* backend;   /* "auto" (default), "cpu", "reference", "cuda", "cuda:1" (second GPU) */
  const char* features;  /* NULL: the host's; "avx2", "avx512", "sse": a narrower CPU target */
  int threads;           /* 1 to 1024; 0: TILE_THREADS, else all cores of the caller's arena, but no
                          * more than the quota of its control groups (cgroup v2, cpu.max) rounded
                          * up */
  size_t memory_limit;   /* bytes that one run may take beside its tensors, and the executable's
                          * constant inputs: temporaries, workspaces (of sorts too), buffers of
                          * threads, dense copies of strided inputs and outputs; on a GPU, bytes of
                          * its memory in use. What would need more is compiled so that it stores
                          * less and computes it again, where that is known (scores of attention
                          * for gradients); still more: an error of code "memory". 0: of a GPU no
                          * limit, else the machine's memory; what the reference interpreter makes
                          * may take 1 GiB at least */
  const char* cache_dir; /* NULL: TILE_CACHE_DIR, else $XDG_CACHE_HOME/tile, else ~/.cache/tile.
                          * Made where it is missing. One that is a link, belongs to another user or
                          * is open to others (mode 700 is not) is not used; the log says why. */
  const char* cache_mode; /* NULL: TILE_CACHE, else "rw"; "ro", "off", "verify" */
  int strict_skip;        /* forbid computing skipped points with a zero factor (CPU: always) */
  int deterministic;      /* see below */
  tile_log_callback log;  /* NULL: messages are dropped */
  void* log_user;
  tile_cancel_callback cancel;
  void* cancel_user;
  /* The same executable gives the same bits for the same inputs, whatever its threads do. But which
   * code an executable has depends on what was measured and tuned on this machine, and on the sizes
   * that a program was run with before. With `deterministic` it depends on the program, the shapes,
   * the processor, the number of threads and the version of this library alone: nothing tuned or
   * measured is used (bf16 and integer products by dot-product instructions neither), every shape
   * has code of its own, and tile_executable_tune is an error of code "argument". */
  /* How a GPU's tensor cores may compute products of f32. NULL or "f32": not at all; "tf32":
   * factors are rounded to 10 fraction bits, and of products of 8-bit floats, which are as they
   * are, sums of up to 128 may be cut to 13 fraction bits (sm_90a: twice as fast); "3xtf32": three
   * products of tf32, close to f32, except that an infinite factor gives NaN. Other devices compute
   * f32. */
  const char* precision;
  /* Bytes of the cache directory beyond which the entries unused for longest are removed (it may be
   * passed by a sixteenth). 0: TILE_CACHE_LIMIT, else 1 GiB. */
  size_t cache_limit;
  /* Bytes of memory that the engine keeps compiled programs in, to find them again by their
   * tensors: executables, code, choices for classes of sizes. Beyond it those unused for longest
   * go; what runs or has a handle stays whole. 0: 64 MiB. */
  size_t memory_cache_limit;
  /* Limits: 0 means the default, UINT64_MAX none. What goes past one ends its call with an error of
   * code "limit", whose hint names the option. */
  uint64_t limit_compile_ms; /* the processor time of one call that parses or differentiates, or of
                              * one compilation, on each of its threads; 10,000 */
  uint64_t limit_nodes;      /* operations and operands of a program once its shapes are known;
                              * 2^20 */
  uint64_t limit_code;       /* statements of one kernel with its inner loops written out; 20,000 */
  uint64_t limit_points;     /* points that the reference interpreter visits in a run; 2^30 */
  uint64_t limit_nesting;    /* brackets and blocks in each other, beneath what the languages allow
                              * (Tile 200, MFG 500, Lift 150): for threads of small stacks */
  /* Not 0: `cancel` ends parsing, differentiating, compiling and tuning; of the runs only those
   * that are given a callback of their own (tile_run_options) can be ended, and the others cost no
   * more than without one. */
  int cancel_spares_runs;
  /* Optional passes of the compiler that are left out, by their names (`tile passes` lists them):
   * programs compute the same without them, perhaps more slowly. For finding faults, and for
   * learning what a pass is worth. Code, records and tuned schedules are kept apart from those of
   * engines with other passes. An unknown name, or one of a pass that cannot be left out, is an
   * error of code "argument". Copied. */
  const char* const* skip_passes;
  size_t skip_pass_count;
  /* Not 0: executables keep the times of their compilation's passes
   * (tile_executable_pass_times). Everything is then compiled: no code is read from the disk. */
  int time_passes;
  /* Where the memory comes from that runs take beside their tensors, and constant inputs; NULL: the
   * library's own. Copied. Of the host: temporaries and workspaces of runs, staged outputs and
   * copies of constants (not small buffers that threads keep, programs and code). Of a device:
   * everything that the engine takes there but code. Freeing handles may release memory until the
   * last handle of the engine, its programs and executables is gone. */
  const tile_allocator* host_allocator;
  const tile_allocator* device_allocator;
  /* The host's threads for parallel loops of runs on the CPU and for compiling; NULL: oneTBB's, and
   * threads of the library's own. */
  tile_parallel_for_callback parallel_for;
  void* parallel_for_user;
} tile_engine_options;

/* options may be NULL. */
TILE_API tile_error* tile_engine_create(const tile_engine_options* options, tile_engine** engine);
TILE_API void tile_engine_free(tile_engine* engine);
/* "cpu: AMD … avx512, 2 threads"; valid while the engine lives. */
TILE_API const char* tile_engine_device(const tile_engine* engine);

typedef struct {
  size_t struct_size;
  uint64_t binds;            /* programs bound to shapes (executable misses) */
  uint64_t executable_hits;  /* executables found in memory */
  uint64_t kernels_compiled; /* kernels that went through the code generator */
  uint64_t kernel_hits;      /* kernels found in memory */
  uint64_t kernel_disk_hits; /* kernels loaded from the disk cache */
  uint64_t temporary_bytes;  /* largest planned temporary memory of any executable */
  uint64_t constant_bytes;   /* of the host, that executables hold of their constant inputs now */
  uint64_t cached_bytes;     /* that count against memory_cache_limit now */
  uint64_t evictions;        /* entries that went for others */
} tile_engine_statistics;
TILE_API tile_error* tile_engine_statistics_get(const tile_engine* engine,
                                                tile_engine_statistics* statistics);

/* Waits for the work that runs on device tensors have given `stream` (NULL: the engine's own) and
 * reports what failed in it. At once where there is no device. */
TILE_API tile_error* tile_engine_synchronize(tile_engine* engine, void* stream);

/* ---- Programs -------------------------------------------------------------------------------- */

/* language: "tile", "mfg", "lift". name is what errors call the text (NULL: "<text>"); text need
 * not be terminated. */
TILE_API tile_error* tile_program_parse(tile_engine* engine, const char* language, const char* name,
                                        const char* text, size_t text_size, tile_program** program);
TILE_API void tile_program_free(tile_program* program);

TILE_API size_t tile_program_input_count(const tile_program* program);
TILE_API size_t tile_program_output_count(const tile_program* program);
/* NULL past the end; valid while the program lives. */
TILE_API const char* tile_program_input_name(const tile_program* program, size_t i);
TILE_API const char* tile_program_output_name(const tile_program* program, size_t i);
/* The declared rank, or -1 for any rank. */
TILE_API int tile_program_input_rank(const tile_program* program, size_t i);
/* The program as text of its language. */
TILE_API const char* tile_program_text(const tile_program* program);

/* What the program takes and gives, before any size is known, as one JSON object on one line:
 *   {"inputs": [{"name": "A", "dims": ["M", 3], "type": "f32"}, …],
 *    "outputs": [{"name": "O", "dims": [["/", ["-", "M", 1], 2]]}, …]}
 * dims: one size for each dimension; of an input null for any rank, of an output null where its
 * shape depends on more than sizes. A size is an integer, a name, or an operation before its
 * arguments:
 * + - * / % (rounded towards zero), floordiv, mod (rounded down), min, max, <, ==, ?: (condition,
 * then, else). A name is that of a dimension of the inputs, or "X.1", size 1 of input X, which
 * declares none.
 * type: the element type that the input must have ("bool", "i8" … "u64", "f8e4m3", "f8e5m2", "f16",
 * "bf16", "f32", "f64"); null where the program fixes none. Inputs that may be left out also have
 * "default", an array of its components; where declared "min", "max" and "label". Freed with
 * tile_string_free. */
TILE_API tile_error* tile_program_signature(const tile_program* program, char** json);

/* Warnings: what is valid in the program but surely not meant, as one JSON array on one line of
 * objects like those of tile_error_json, with "severity": "warning". The first call knows the text
 * alone (an input that nothing reads or a statement that no output needs: "unread"; a quotient of
 * whole numbers that is 0: "truncated"), the second the shapes too: contractions without any point
 * ("empty"), conditions that always hold ("always"), cells that no point reaches ("unreached"),
 * sums of integers that leave their type ("overflow"), literal indices outside of a tensor
 * ("index"), broadcasting that fits by chance ("aligned"); then of each parameter the first value
 * of runs so far that was outside its declared range ("range"; not looked at in a device's memory).
 * An engine's log callback gets the same as text, when a program is compiled, of values when they
 * are given. Freed with tile_string_free. */
TILE_API tile_error* tile_program_warnings(const tile_program* program, char** json);
TILE_API tile_error* tile_executable_warnings(const tile_executable* executable, char** json);

/* The program that computes the outputs of `program` and, for each input named in `wrt`, the
 * vector-Jacobian product of output `of` with a new last input, the seed (shape of that output).
 * The new outputs follow the old ones, in the order of `wrt`; they are named "D" and the input's
 * name, the seed "D" and the output's. The result is a program as any other: it can be
 * differentiated again.
 * A gradient has the shape of its input and the type it is computed in: the input's, unless the
 * program promotes it (f16 times f32 gives f32). Binding to an integer output `of`, an integer
 * input of `wrt` or a seed of another shape is an error. */
TILE_API tile_error* tile_program_differentiate(tile_program* program, const char* of,
                                                const char* const* wrt, size_t wrt_count,
                                                tile_program** gradient);

/* `program` with a vector-Jacobian product of its output `of` that differentiation uses instead of
 * generating one. `gradient` is a program whose inputs are, by name and in any order, the seed ("D"
 * and the output's name) and any inputs and outputs of `program`, and whose outputs are "D" and the
 * name of an input; differentiation with respect to an input that it leaves out is an error. The
 * handles given stay the caller's and need not outlive the result. */
TILE_API tile_error* tile_program_with_gradient(tile_program* program, const char* of,
                                                tile_program* gradient, tile_program** result);

/* `program` with other outputs: tensors that it defines (for MFG any `def`), by name. Gradients
 * given by tile_program_with_gradient stay. */
TILE_API tile_error* tile_program_with_outputs(tile_program* program, const char* const* names,
                                               size_t count, tile_program** result);

/* ---- Executables ----------------------------------------------------------------------------- */

/* Binds to the shapes, strides and element types of `inputs` (data pointers are not read and may be
 * NULL) and compiles; cached by those. Inputs in the order of the program. An input that is a
 * run-time parameter with a default value (MFG's @param) may be a NULL pointer, here and in every
 * run, and parameters at the end of the list may be left out. Where a parameter sets a size (it
 * stands in an @bounds), its value is read here too; NULL data is its default. */
TILE_API tile_error* tile_program_compile(tile_program* program, const DLTensor* const* inputs,
                                          size_t input_count, tile_executable** executable);

typedef struct {
  size_t struct_size;
  /* Inputs whose elements are the same in every run, such as weights, by their numbers in the
   * program. They are copied here, so that what the caller does with the tensors later is not seen;
   * on a CPU what kernels read in another order is also packed here, once, instead of in every run.
   * Runs read the copies; a run may leave such an input out (a NULL pointer, or fewer inputs where
   * it stands at the end) or name the tensor that was given here again; another one is an error
   * of code "argument". */
  const size_t* constants;
  size_t constant_count;
  /* Not NULL: the program divided among the ranks of a mesh; see "Meshes". Without constants, and
   * not for tile_program_compile_async. */
  tile_mesh* mesh;
  /* "A[x, *] B[*, y]": layouts that are not named are chosen by the time that is expected of them,
   * those of inputs and outputs too. NULL or a text that names nothing: inputs and outputs are
   * spread over the mesh, and what is between them is chosen. "auto": nothing is named, everything
   * is chosen. With the word "follow" in it nothing is chosen: unnamed tensors are divided as named
   * ones are whose indices they share. */
  const char* layouts;
  /* Whether a rank computes what needs nothing of others before the result of an exchange is there:
   * "always" wherever something can be computed, "never", "auto" or NULL where that is expected to
   * take less time. Values are the same, as far as the order in which terms of a sum are added is;
   * "auto" keeps that where several ranks compute the same cells. */
  const char* overlap;
} tile_compile_options;

/* The same with options, which may be NULL. With constants their data pointers are read, and the
 * executable is one of its own at every call, with copies of its own, which go with it; its code is
 * cached as ever. The copies count with the temporaries against the engine's memory_limit (with the
 * cuda backend against that of its device). Runs from several threads share them. */
TILE_API tile_error* tile_program_compile_with(tile_program* program, const DLTensor* const* inputs,
                                               size_t input_count,
                                               const tile_compile_options* options,
                                               tile_executable** executable);
TILE_API void tile_executable_free(tile_executable* executable);

/* Called once, on a thread of the library, when a compilation has ended: with the executable, which
 * is then the callback's, or with the error, which it frees; the other one is NULL. It may call the
 * library and must not throw: what it throws is dropped, and a wait for it is an error of code
 * "argument". */
typedef void (*tile_compile_callback)(void* user, tile_error* error, tile_executable* executable);

/* As tile_program_compile_with, but returns at once and compiles on a thread of the library; what
 * is wrong with the arguments is this call's own error, and `callback` is then not called. What is
 * read of the tensors (constants, parameters that set sizes) is read before it returns. The handles
 * given may be freed meanwhile. There are as many threads as processors; further compilations wait.
 * The engine's cancel callback is asked on the thread that compiles. When the process ends,
 * compilations end, and callbacks that have not begun are not called.
 * `compilation` may be NULL; else it is a handle to wait with or to cancel, which the caller frees.
 */
TILE_API tile_error* tile_program_compile_async(tile_program* program,
                                                const DLTensor* const* inputs, size_t input_count,
                                                const tile_compile_options* options,
                                                tile_compile_callback callback, void* user,
                                                tile_compilation** compilation);
/* Waits until the callback has returned, at most so many milliseconds (negative: for ever), and
 * tells whether it has. Within the callback itself it is an error of code "argument", when the
 * process ends one of code "cancelled", and in a forked child one of code "fork". */
TILE_API tile_error* tile_compilation_wait(tile_compilation* compilation, double timeout_ms,
                                           int* done);
/* The compilation ends soon, with an error of code "cancelled", unless it is as good as done. */
TILE_API void tile_compilation_cancel(tile_compilation* compilation);
/* Neither waits nor cancels. */
TILE_API void tile_compilation_free(tile_compilation* compilation);

/* The executable as bytes that a host may keep and load again without the program: machine code,
 * copies of its constants, what its outputs are. Of the cpu backend only (else an error of code
 * "unsupported"). Freed with tile_bytes_free. */
TILE_API tile_error* tile_executable_save(const tile_executable* executable, void** bytes,
                                          size_t* size);
TILE_API void tile_bytes_free(void* bytes); /* NULL is allowed */
/* An executable from such bytes, without a compiler: a fraction of a millisecond. It runs and
 * describes its tensors; what needs the program (tuning, emit, explain, warnings) is an error of
 * code "argument", and constants are left out of its runs. Only the build of the library that saved
 * it loads it (else an error of code "saved", as for damaged bytes), on a processor that has what
 * it was compiled for (else "target").
 * The bytes are machine code that runs with the rights of the process: a checksum finds damage, not
 * intent. Load only what you would run. */
TILE_API tile_error* tile_executable_load(tile_engine* engine, const void* bytes, size_t size,
                                          tile_executable** executable);

/* What the outputs are for such inputs (as for tile_program_compile; strides are not looked at),
 * found without generating code or caching anything: some microseconds for each statement. Errors
 * of stage bind are found, those of stage compile are not. */
TILE_API tile_error* tile_program_infer(tile_program* program, const DLTensor* const* inputs,
                                        size_t input_count, tile_inference** inference);
/* As tile_executable_output; the arrays live as long as the inference. */
TILE_API tile_error* tile_inference_output(const tile_inference* inference, size_t i,
                                           DLTensor* description);
TILE_API void tile_inference_free(tile_inference* inference);

/* Shape and type of output i, and the device that the engine runs on, where no run copies it from;
 * the arrays live as long as the executable. Strides are those of dense elements; data is NULL. */
TILE_API tile_error* tile_executable_output(const tile_executable* executable, size_t i,
                                            DLTensor* description);

TILE_API size_t tile_executable_input_count(const tile_executable* executable);
TILE_API size_t tile_executable_output_count(const tile_executable* executable);
/* The same as tile_executable_output of input i, with the strides compiled for. */
TILE_API tile_error* tile_executable_input(const tile_executable* executable, size_t i,
                                           DLTensor* description);

/* Bytes of temporaries that a run takes; see tile_run_options.workspace. Tuning may change it. */
TILE_API tile_error* tile_executable_workspace_size(const tile_executable* executable,
                                                    size_t* bytes);

/* Whether a run may be given output `output` in the memory of input `input`, whose elements it then
 * overwrites: no element of the input is read after the output's element in its place is written.
 * Type, shape and dense strides are the same. A run that is not allowed
 * it is an error of code "overlap". Tuning may change the answer. On a GPU there is no such pair.
 */
TILE_API tile_error* tile_executable_may_donate(const tile_executable* executable, size_t input,
                                                size_t output, int* allowed);

typedef struct {
  size_t struct_size;
  void* stream; /* a CUstream for the cuda backend; NULL: the engine's own */
  /* NULL: the engine's. A run that can be cancelled gives a device one kernel at a time. */
  tile_cancel_callback cancel;
  void* cancel_user;
  /* Memory for the run's temporaries, at least tile_executable_workspace_size bytes aligned to 64,
   * of a device aligned to 256; nobody else uses it until the run is done. NULL: from the engine's
   * allocator, else the library's own. */
  void* workspace;
  size_t workspace_size;
} tile_run_options;

/* Runs on the given tensors without copying. With the cuda backend tensors may be on its device
 * (kDLCUDA): the run then returns once its work is given to the stream, and what fails there is
 * reported by a later call with that engine; tensors in host memory are copied in and out, which
 * waits for the results. The engine's own stream and the legacy default stream wait for each other.
 * Inputs have the shapes, strides and types compiled for; their strides may be zero, negative or
 * let elements overlap. Outputs are writable and dense row-major; other strides, negative ones too,
 * are accepted at the cost of a copy if no two elements of the output are the same memory (a stride
 * of zero, for one). No element of an output may share memory with one of an input or of another
 * output (tensors that interleave do not); both are errors of code "overlap". An output may be an
 * input's memory as a whole where tile_executable_may_donate says so. options may be NULL. */
TILE_API tile_error* tile_executable_run(const tile_executable* executable,
                                         const DLTensor* const* inputs, size_t input_count,
                                         DLTensor* const* outputs, size_t output_count,
                                         const tile_run_options* options);

/* That each step of a run of several reads output `output` of the step before as its input `input`.
 */
typedef struct {
  size_t output;
  size_t input;
} tile_feed;

/* A time loop: runs the executable `steps` times, the outputs of a step being inputs of the next as
 * `feeds` says. The first step reads `inputs`; inputs that nothing feeds are read by every step.
 * Afterwards `outputs` hold what the last step made of them; an output may feed several inputs, and
 * one that feeds none is written again by each step. Nothing is copied between steps: an output
 * that is fed alternates between the memory given for it and as much memory of the engine's
 * allocator, which counts against its memory_limit (an output with strides takes twice as much, so
 * that only its last elements are copied). With 0 steps each output is a copy of the input that it
 * feeds.
 * What a run's tensors must be holds here too; inputs and outputs on a device stay there. The same
 * steps give the same bits as the same number of single runs. The callback that cancels is asked
 * within and between steps; outputs then hold anything.
 * A feed whose output differs from its input in type or shape, an input that is fed twice, is a
 * constant, sets a size or was compiled for strides that are not dense, and 0 steps of an output
 * that feeds nothing are errors of code "argument"; an output in the memory of an input that
 * nothing feeds is one of code "overlap" (from the second step on that input would be gone), also
 * where tile_executable_may_donate allows it. */
TILE_API tile_error* tile_executable_run_steps(const tile_executable* executable, uint64_t steps,
                                               const tile_feed* feeds, size_t feed_count,
                                               const DLTensor* const* inputs, size_t input_count,
                                               DLTensor* const* outputs, size_t output_count,
                                               const tile_run_options* options);

/* Compile (or recall) and run in one call: the fast path for repeated calls. */
TILE_API tile_error* tile_program_run(tile_program* program, const DLTensor* const* inputs,
                                      size_t input_count, DLTensor* const* outputs,
                                      size_t output_count, const tile_run_options* options);

/* Races candidate schedules of every kernel on this machine within budget_ms and stores the
 * winners. Runs may go on meanwhile, of this handle and of others for the same tensors: those that
 * begin later take the winners. A budget that is negative or not finite is an error of code
 * "argument". */
TILE_API tile_error* tile_executable_tune(tile_executable* executable, double budget_ms);

/* Called on the thread that tunes, after each candidate: so many of so many are timed, the fastest
 * of this kernel's takes best_ns (0 or infinite: none is timed yet). With a shared directory an
 * empty name says that other workers have the rest. It must not call back into the library, nor
 * throw. */
typedef void (*tile_tune_progress)(void* user, const char* kernel, size_t tried, size_t total,
                                   double best_ns);

typedef struct {
  size_t struct_size;
  double budget_ms;            /* as above; with share_dir 0 is no limit */
  tile_tune_progress progress; /* may be NULL */
  void* progress_user;
  /* NULL: this process alone. Else the directory, which is made where it is missing (of mode 700),
   * in which workers on any machines of this user share the work: each candidate is timed by one of
   * them. A worker that ends early, or is killed, is resumed by any other. Returns once all kernels
   * of the executable are decided, or the budget is spent. */
  const char* share_dir;
  /* With share_dir alone: candidates of each kernel (0: 72), and machines that race each kernel's
   * best in turns at last (0: 2). */
  size_t candidates;
  size_t confirmations;
} tile_tune_options;

/* The same with options. */
TILE_API tile_error* tile_executable_tune_with(tile_executable* executable,
                                               const tile_tune_options* options);

/* What tuning found is kept in the cache directory as records, one for each schedule of a kernel
 * and machine, which every build of this library and of `tile` reads on processors of the same
 * kind; compiled code is kept by build. Export gives the engine's records, those of its processor,
 * as text of one line each (freed with tile_string_free); import adds such lines, of which those of
 * other processors, and damaged ones, are passed over. Which schedule a kernel then has is decided
 * by the median across machines; executables that were compiled before stay as they are. `imported`
 * may be NULL: how many were new. */
TILE_API tile_error* tile_engine_records_export(tile_engine* engine, char** lines);
TILE_API tile_error* tile_engine_records_import(tile_engine* engine, const char* lines, size_t size,
                                                size_t* imported);

/* Text of a stage of the compilation: program, bound, reduced, kernels, schedule, nest; llvm,
 * asm (cpu); cuda, ptx, sass (cuda); "after:" and the name of a pass (`tile passes` lists them):
 * what that pass made, "after:collapse" for one. "changes": what each pass made that changed
 * anything. Freed with tile_string_free. */
TILE_API tile_error* tile_executable_emit(const tile_executable* executable, const char* stage,
                                          char** text);
/* A table with one line for each kernel, then what each is and why: class, vector width, tiles,
 * domain, remaining guards, the terms of its estimated time, and the next schedule. */
TILE_API tile_error* tile_executable_explain(const tile_executable* executable, char** text);
/* Where the time of the executable's compilation went, as one JSON object on one line:
 *   {"total_ms": 4.2, "passes": [{"stage": "tensor", "pass": "reduce", "runs": 1, "ms": 0.1}, …]}
 * total_ms: parsing, differentiating and compiling, with what lies between the passes.
 * ms: of all the runs of a pass, in milliseconds; passes that were not run are left out. Kernels
 * become code on several threads, so that the passes of stage "code" may add up to more than the
 * whole. An error of code "argument" where the engine was created without time_passes.
 * Freed with tile_string_free. */
TILE_API tile_error* tile_executable_pass_times(const tile_executable* executable, char** json);
TILE_API void tile_string_free(char* text);

/* ---- Meshes ---------------------------------------------------------------------------------- */

/* A mesh is a grid of ranks whose axes have names. A program that is compiled for one is divided:
 * each rank holds boxes of its tensors, computes its part, and exchanges what it needs with the
 * others. Programs, their values and these calls are as ever; what differs is this:
 *
 * - A tile_mesh is one rank's end. Every rank makes the same calls in the same order: creating the
 *   mesh, compiling for it, running what was compiled. They wait for each other.
 * - tile_program_compile_with with `mesh` takes the shapes of the whole tensors (strides are not
 *   looked at, and data only of parameters that set sizes). tile_executable_input and _output then
 *   describe this rank's boxes, and tile_executable_input_box and _output_box say where they are.
 * - tile_executable_run takes this rank's boxes, dense and in the host's memory or that of its
 *   engine's GPU, without copying what is where the engine runs. Boxes may be empty. Options:
 * cancel alone. It returns when the outputs are there; what a GPU's boxes are made of must be there
 * when it is called, or be work on the legacy default stream.
 * - Ranks whose engines have GPUs of their own exchange parts between these over NCCL
 * (libnccl.so.2, opened when the first program is compiled; TILE_NCCL names another file, or is
 * "off"). Where that cannot be, parts go through the host's memory, which rank 0's log says.
 * - An input along whose layout ranks hold partial sums ("S[*] + x") is the sum of what they give.
 *   Outputs of such a layout are parts of the sum in turn.
 * - Layouts are chosen by the rates of rank 0's engine and by what messages take along each axis.
 *   That is measured when the first program is compiled on a mesh, a few milliseconds for an axis,
 *   and kept in the cache directory of rank 0's engine for later meshes of these machines; not with
 *   `deterministic` on any rank, and not between GPUs. Which sums are divided, and so the last bits
 *   of floats, may depend on it.
 *
 * Layouts, their errors and what they cost: guides/RANKS.md of the library's sources.
 *
 * Errors. Ranks that compile with other texts, layouts, shapes, options or builds of the library
 * get an error of code "agreement", all of them the same. A rank that fails ends the call of every
 * other one with an error of code "rank", at the statement whose exchange did not come about; so
 * does one that is silent for the timeout, because it died, was stopped, was cut off, or is late.
 * The mesh is then dead on all ranks: further calls fail, outputs of the run hold anything, and
 * everything else, the engine and its programs, is as before. Another mesh may be made where the
 * transport allows it. The memory of inputs of a run that failed with "rank" must not be unmapped
 * as long as the process uses the transport's library: another rank may still read it.
 *
 * Threads. A mesh and its executables are used by one thread at a time, which need not always be
 * the same; a call meanwhile is an error of code "argument". Different meshes are independent. */
typedef struct {
  size_t struct_size;
  const char* axes;       /* "x=2, y=4": the last one varies fastest; 256 ranks at most */
  double timeout_seconds; /* how long a silent rank is waited for; 0: 30 */
  /* For processes: the path of a plug-in, with a slash in it; "mpi": the path in the environment's
   * TILE_MPI. It and its folder belong to this user or to root, and nobody else may write them: it
   * is code. What it does first, such as MPI_Init, is done by tile_mesh_create. */
  const char* transport;
  void* communicator; /* for the plug-in; of MPI an MPI_Comm*, NULL: MPI_COMM_WORLD */
  /* In place of `transport`: the host's own, which is copied, and closed with the mesh. */
  const tile_transport* given;
} tile_mesh_options;

/* One end of a mesh of processes, for programs of this engine. Its rank and the number of ranks are
 * the transport's; another number than that of the axes is an error of code "mesh". */
TILE_API tile_error* tile_mesh_create(tile_engine* engine, const tile_mesh_options* options,
                                      tile_mesh** mesh);
/* All ends of a mesh whose ranks are threads of this process: as many as the axes say, each for a
 * thread of its own. `transport` and `given` are NULL. */
TILE_API tile_error* tile_mesh_create_local(tile_engine* engine, const tile_mesh_options* options,
                                            tile_mesh** meshes, size_t count);
/* The same, where rank r has the engine engines[r]: several GPUs in one process, with engines of
 * the backends "cuda:0", "cuda:1" and so on. A program is loaded into each engine. */
TILE_API tile_error* tile_mesh_create_local_on(tile_engine* const* engines,
                                               const tile_mesh_options* options, tile_mesh** meshes,
                                               size_t count);
/* Executables compiled for it keep what they need. Waits for nobody. */
TILE_API void tile_mesh_free(tile_mesh* mesh);
TILE_API size_t tile_mesh_rank(const tile_mesh* mesh);
TILE_API size_t tile_mesh_rank_count(const tile_mesh* mesh);
/* Tells the other ranks that this one takes no further part, because of something outside of this
 * library: their calls end with an error that has the reason. NULL: none is given. */
TILE_API tile_error* tile_mesh_abort(tile_mesh* mesh, const char* reason);

/* Where this rank's box of an input begins, and the extents of the whole tensor; both arrays have
 * as many elements as the tensor has dimensions, or are NULL. The box's own extents are those of
 * tile_executable_input. Without a mesh boxes are whole. */
TILE_API tile_error* tile_executable_input_box(const tile_executable* executable, size_t i,
                                               int64_t* begin, int64_t* whole);
TILE_API tile_error* tile_executable_output_box(const tile_executable* executable, size_t i,
                                                int64_t* begin, int64_t* whole);

#ifdef __cplusplus
}
#endif
#endif
