#!/usr/bin/env python3
"""Attention on a GPU beside PyTorch's fused kernels: results against f32, and times, interleaved.

    attention_bench.py LIBTILE [--sizes BxHxSxD,...] [--kinds full,causal,window] [--types bf16,f16,f32]
                       [--rounds N]
                       [--skip PASS] [--train] [--json FILE]

LIBTILE is libtile.so of a build tree or of an unpacked tarball (lib/). A program is the text below; nothing in it is
recognised by name. In each round every contender runs often enough to fill 20 ms between two events of one stream;
what is printed is the median of the rounds. With --train a program also makes the gradients of queries, keys and
values, and peers run forward and backward. Exit status: 0 all results agree, 1 some does not, 77 no GPU."""
import argparse
import ctypes
import json
import math
import statistics
import sys

NO_GPU = 77
ROUND_MS = 20
CUDA, FLOAT, BFLOAT = 2, 2, 4
WINDOW = 256
# Scores in f32; `scores` rounded to the inputs' type is what a statement of them alone gives.
PROGRAM = """function (Q[B, H, S, D], K[B, H, T, D], V[B, H, T, D]) -> (O) {{
  L[b, h, s, t: B, H, S, T] = +({scores});
  Z = as_float(L, 32) * (1.0 / sqrt(1.0 * D));
  Top[b, h, s, 0: B, H, S, 1] = >(Z[b, h, s, t]){condition};
  E = exp(Z - Top);
  Sum[b, h, s, 0: B, H, S, 1] = +(E[b, h, s, t]){condition};
  P = {cast}(E / Sum{bits});
  O[b, h, s, d: B, H, S, D] = +(P[b, h, s, t] * V[b, h, t, d]){condition};
}}
"""
WIDE = "as_float(Q[b, h, s, d], 32) * as_float(K[b, h, t, d], 32)"
NARROW = "Q[b, h, s, d] * K[b, h, t, d]"
CONDITIONS = {"full": "", "causal": ", s - t < S", "window": f", s - t < {WINDOW}"}


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", DLDevice), ("ndim", ctypes.c_int32), ("dtype", DLDataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class RunOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("stream", ctypes.c_void_p), ("cancel", ctypes.c_void_p),
                ("cancel_user", ctypes.c_void_p)]


class EngineOptions(ctypes.Structure):
    """The head of tile_engine_options, and the passes that are left out; struct_size tells how much there is."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("backend", ctypes.c_char_p), ("features", ctypes.c_char_p),
                ("threads", ctypes.c_int), ("memory_limit", ctypes.c_size_t), ("cache_dir", ctypes.c_char_p),
                ("cache_mode", ctypes.c_char_p), ("strict_skip", ctypes.c_int), ("deterministic", ctypes.c_int),
                ("log", ctypes.c_void_p), ("log_user", ctypes.c_void_p), ("cancel", ctypes.c_void_p),
                ("cancel_user", ctypes.c_void_p), ("precision", ctypes.c_char_p), ("cache_limit", ctypes.c_size_t),
                ("memory_cache_limit", ctypes.c_size_t), ("limit_compile_ms", ctypes.c_uint64),
                ("limit_nodes", ctypes.c_uint64), ("limit_code", ctypes.c_uint64), ("limit_points", ctypes.c_uint64),
                ("limit_nesting", ctypes.c_uint64), ("cancel_spares_runs", ctypes.c_int),
                ("skip_passes", ctypes.POINTER(ctypes.c_char_p)), ("skip_pass_count", ctypes.c_size_t),
                ("time_passes", ctypes.c_int)]


class Engine:
    def __init__(self, path, skip):
        self.lib = ctypes.CDLL(path)
        for name in ("tile_engine_create", "tile_program_parse", "tile_program_differentiate", "tile_program_run",
                     "tile_engine_synchronize"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.lib.tile_error_rendered.restype = ctypes.c_char_p
        self.lib.tile_error_rendered.argtypes = [ctypes.c_void_p]
        options = EngineOptions(backend=b"cuda", cache_mode=b"off")
        options.struct_size = ctypes.sizeof(EngineOptions)
        if skip:
            self.names = (ctypes.c_char_p * len(skip))(*[name.encode() for name in skip])
            options.skip_passes, options.skip_pass_count = self.names, len(skip)
        self.engine = ctypes.c_void_p()
        self.check(self.lib.tile_engine_create(ctypes.byref(options), ctypes.byref(self.engine)))

    def check(self, error):
        if error:
            raise RuntimeError(self.lib.tile_error_rendered(error).decode())

    def program(self, text):
        handle, data = ctypes.c_void_p(), text.encode()
        self.check(self.lib.tile_program_parse(self.engine, b"tile", b"attention", data, ctypes.c_size_t(len(data)),
                                               ctypes.byref(handle)))
        return handle

    def gradient(self, program):
        handle, names = ctypes.c_void_p(), (ctypes.c_char_p * 3)(b"Q", b"K", b"V")
        self.check(self.lib.tile_program_differentiate(program, b"O", names, ctypes.c_size_t(3), ctypes.byref(handle)))
        return handle

    def call(self, program, inputs, outputs, stream):
        """A function that runs the program on the tensors, which it keeps alive."""
        described = [describe(t) for t in inputs + outputs]
        count, results = len(inputs), len(outputs)
        given = (ctypes.POINTER(DLTensor) * count)(*[ctypes.pointer(d) for d in described[:count]])
        made = (ctypes.POINTER(DLTensor) * results)(*[ctypes.pointer(d) for d in described[count:]])
        options = RunOptions(stream=stream)
        options.struct_size = ctypes.sizeof(RunOptions)
        keep = (described, inputs, outputs, given, made, options)

        def run(kept=keep):
            self.check(self.lib.tile_program_run(program, kept[3], ctypes.c_size_t(count), kept[4],
                                                 ctypes.c_size_t(results), ctypes.byref(kept[5])))
        return run


def describe(tensor):
    t = DLTensor()
    t.data, t.device, t.ndim = tensor.data_ptr(), DLDevice(CUDA, tensor.device.index or 0), tensor.dim()
    code = BFLOAT if "bfloat16" in str(tensor.dtype) else FLOAT
    t.dtype = DLDataType(code, tensor.element_size() * 8, 1)
    t.shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
    t.strides = (ctypes.c_int64 * tensor.dim())(*tensor.stride())
    return t


def text_of(kind, dtype, narrow_scores):
    cast, bits = ("as_bf16", "") if dtype == "bf16" else ("as_float", ", 16" if dtype == "f16" else ", 32")
    return PROGRAM.format(condition=CONDITIONS[kind], cast=cast, bits=bits, scores=NARROW if narrow_scores else WIDE)


def mask_of(torch, kind, s):
    rows, columns = torch.arange(s, device="cuda")[:, None], torch.arange(s, device="cuda")[None, :]
    seen = columns <= rows
    return seen if kind == "causal" else seen & (rows - columns < WINDOW)


def reference(torch, kind, q, k, v, seed):
    """Some heads in f64: the result, and with a seed the gradients."""
    heads = [(0, 0), (q.shape[0] - 1, q.shape[1] - 1)]
    for b, h in heads:
        given = [t[b, h].double().requires_grad_(seed is not None) for t in (q, k, v)]
        with torch.set_grad_enabled(seed is not None):
            scores = given[0] @ given[1].T / math.sqrt(q.shape[-1])
            if kind != "full":
                scores = scores.masked_fill(~mask_of(torch, kind, q.shape[2]), -math.inf)
            result = torch.softmax(scores, -1) @ given[2]
        gradients = torch.autograd.grad(result, given, seed[b, h].double()) if seed is not None else ()
        yield b, h, [result.detach(), *gradients]


def peers(torch, kind, q, k, v, seed):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    if kind == "window":
        return {}

    given = [t.detach().requires_grad_(seed is not None) for t in (q, k, v)]

    def with_backend(backend):
        def run():
            with sdpa_kernel(backend), torch.set_grad_enabled(seed is not None):
                out = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=kind == "causal")
                return torch.autograd.grad(out, given, seed) if seed is not None else out
        return run
    found = {}
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION),
                          ("efficient", SDPBackend.EFFICIENT_ATTENTION)):
        # The first two have no kernels of f32, beside which the third is the best.
        if (name == "efficient") != (q.dtype == torch.float32):
            continue
        try:
            with_backend(backend)()
            found[name] = with_backend(backend)
        except RuntimeError as error:
            print(f"  {name}: {str(error).splitlines()[0]}")
    return found


def timed(torch, stream, run, count):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record(stream)
    for _ in range(count):
        run()
    end.record(stream)
    end.synchronize()
    return begin.elapsed_time(end) / count


def medians(torch, stream, contenders, rounds):
    counts, times = {}, {name: [] for name in contenders}
    for name, run in contenders.items():
        timed(torch, stream, run, 2)
        counts[name] = max(1, min(1000, int(ROUND_MS / max(timed(torch, stream, run, 3), 1e-3))))
    for _ in range(rounds):
        for name, run in contenders.items():
            times[name].append(timed(torch, stream, run, counts[name]))
    return {name: statistics.median(list_) for name, list_ in times.items()}


def case(torch, engines, options, size, kind, dtype):
    b, h, s, d = size
    torch.manual_seed(1)
    element = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
    q, k, v, do = (torch.randn(b, h, s, d, device="cuda", dtype=element) for _ in range(4))
    seed = do if options.train else None
    stream = torch.cuda.Stream()
    row = {"size": "x".join(map(str, size)), "kind": kind, "type": dtype, "train": options.train}
    with torch.cuda.stream(stream), torch.no_grad():
        contenders, outputs = {}, {}
        for name, (engine, narrow) in engines.items():
            outputs[name] = [torch.full_like(q, math.nan) for _ in range(4 if options.train else 1)]
            program = engine.program(text_of(kind, dtype, narrow))
            if options.train:
                program = engine.gradient(program)
            given = [q, k, v] + ([do] if options.train else [])
            contenders[name] = engine.call(program, given, outputs[name], stream.cuda_stream)
            contenders[name]()
        stream.synchronize()
        for name, made in outputs.items():
            worst = 0.0
            for at_b, at_h, wanted in reference(torch, kind, q, k, v, seed):
                for output, want in zip(made, wanted):
                    apart = (output[at_b, at_h].double() - want).abs().max().item() / want.abs().max().item()
                    worst = max(worst, apart if apart == apart else math.inf)
            row[f"{name}_error"] = worst
        contenders.update(peers(torch, kind, q, k, v, seed))
        times = medians(torch, stream, contenders, options.rounds)
    shares = {"full": 1.0, "causal": 0.5, "window": min(1.0, WINDOW / s)}
    # Two products forward, and with gradients five more.
    work = (14.0 if options.train else 4.0) * b * h * s * s * d * shares[kind]
    for name, ms in times.items():
        row[f"{name}_us"] = ms * 1000
        row[f"{name}_tflops"] = work / ms / 1e9
    best = min((times[name] for name in ("cudnn", "flash", "efficient") if name in times), default=None)
    row["of_best_peer"] = best / times["tile"] if best else None
    return row


def shown(row):
    text = f"{row['size']:16} {row['kind']:7} {row['type']:5}"
    for name in ("tile", "tile_narrow", "cudnn", "flash", "efficient"):
        if f"{name}_us" in row:
            text += f"  {name} {row[f'{name}_us']:9.1f} us {row[f'{name}_tflops']:6.1f} TF"
    if row["of_best_peer"]:
        text += f"  best peer / ours {row['of_best_peer']:.3f}"
    return text + f"  error {row['tile_error']:.2g} {row['tile_narrow_error']:.2g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libtile")
    parser.add_argument("--sizes", default="4x16x4096x64,4x16x4096x128,4x16x1024x64,4x16x1024x128,2x3x1000x64,1x2x333x80")
    parser.add_argument("--kinds", default="full,causal")
    parser.add_argument("--types", default="bf16")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--skip", action="append", default=[], help="a pass of the compiler that is left out")
    parser.add_argument("--train", action="store_true", help="results and gradients")
    parser.add_argument("--json")
    options = parser.parse_args()
    import torch
    if not torch.cuda.is_available():
        print("attention_bench: no GPU")
        return NO_GPU
    print(f"attention_bench: {torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    engine = Engine(options.libtile, options.skip)
    engines = {"tile": (engine, False), "tile_narrow": (engine, True)}
    rows, wrong = [], False
    for size in options.sizes.split(","):
        for kind in options.kinds.split(","):
            for dtype in options.types.split(","):
                try:
                    row = case(torch, engines, options, tuple(map(int, size.split("x"))), kind, dtype)
                except RuntimeError as error:
                    print(f"{size} {kind} {dtype}: {error}", flush=True)
                    wrong = True
                    continue
                rows.append(row)
                # Scores rounded to 16 bits move weights by their own rounding times their size.
                most = 1e-4 if dtype == "f32" else 0.02
                bad = row["tile_error"] > most or row["tile_narrow_error"] > (most if dtype == "f32" else 0.05)
                wrong = wrong or bad
                print(shown(row) + ("  WRONG" if bad else ""), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
