"""The other end of bench/peers/python.cpp: one Python module as a peer of tile-bench.

Usage: driver.py MODULE THREADS cpu|cuda. Reads a JSON object for each line of standard input and answers
with one: describe -> description; prepare (inputs, output, statements, expression) -> {}, after the
first call has left its values in the output's file; run (count) -> ns.
Inputs stand under their names as the module's own tensors; `attributes` are those of the workload."""

import importlib
import json
import mmap
import os
import sys
import time
import warnings

try:
    import numpy as np
except ImportError:
    np = None

NUMPY = {}
if np:
    NUMPY = {"f64": np.float64, "f32": np.float32, "i64": np.int64, "i32": np.int32, "u8": np.uint8,
             "u16": np.uint16, "i16": np.int16, "i8": np.int8, "bf16": np.uint16, "f16": np.float16,
             "bool": np.bool_}


def mapped(tensor):
    size = max(1, int(np.prod(tensor["shape"])) * np.dtype(NUMPY[tensor["dtype"]]).itemsize)
    with open(tensor["path"], "r+b") as file:
        memory = mmap.mmap(file.fileno(), size)
    count = int(np.prod(tensor["shape"]))
    return np.frombuffer(memory, dtype=NUMPY[tensor["dtype"]], count=count).reshape(tensor["shape"])


def aligned(array):
    """A copy whose first element is at a multiple of 64 bytes, as ours is."""
    memory = np.empty(array.nbytes + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start:start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class Peer:
    """What the module's own tensors and calls are; overridden for each module."""

    def allow_tf32(self, allowed):
        """Whether factors of f32 products may be rounded to tf32, from now on."""

    def time(self, run, count):
        start = time.perf_counter_ns()
        for _ in range(count):
            run()
        return time.perf_counter_ns() - start


class Torch(Peer):
    def __init__(self, threads, device):
        self.module = importlib.import_module("torch")
        self.device = device
        if device == "cpu":
            self.module.set_num_threads(threads)
        else:
            self.module.backends.cudnn.benchmark = True
        self.names = {"torch": self.module, "F": importlib.import_module("torch.nn.functional")}

    def allow_tf32(self, allowed):
        self.module.backends.cuda.matmul.allow_tf32 = allowed
        self.module.backends.cudnn.allow_tf32 = allowed

    def tensor(self, array, dtype):
        t = self.module.from_numpy(array.view(np.int16) if dtype == "bf16" else array)
        t = t.view(self.module.bfloat16) if dtype == "bf16" else t
        return t.to(self.device)

    def time(self, run, count):
        if self.device == "cpu":
            return super().time(run, count)
        cuda = self.module.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        begin.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e6

    def call(self, expression, names):
        code = compile(expression, "peer", "eval")
        grad = self.module.no_grad()
        grad.__enter__()
        return lambda: eval(code, names)

    def values(self, result):
        if result.dtype == self.module.bfloat16:
            result = result.contiguous().view(self.module.int16)
        array = result.contiguous().cpu().numpy()
        return array.view(np.uint16) if array.dtype == np.int16 else array


class Jax(Peer):
    def __init__(self, threads, device):
        del threads  # XLA takes the cores of its affinity
        os.environ["JAX_PLATFORMS"] = device
        self.module = importlib.import_module("jax")
        self.names = {"jax": self.module, "jnp": importlib.import_module("jax.numpy"),
                      "lax": importlib.import_module("jax.lax")}

    def tensor(self, array, dtype):
        jnp = self.names["jnp"]
        return jnp.asarray(array).view(jnp.bfloat16) if dtype == "bf16" else jnp.asarray(array)

    def call(self, expression, names):
        arrays = {k: v for k, v in names.items() if isinstance(v, self.module.Array)}
        code = compile(expression, "peer", "eval")
        function = self.module.jit(lambda given: eval(code, {**names, **given}))
        return lambda: function(arrays).block_until_ready()

    def values(self, result):
        array = np.asarray(result)
        return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


class Halide(Peer):
    """The expression is a Func; unless the statements define `schedule`, every autoscheduler schedules it,
    and so does `by_hand`; the fastest code is what is timed. Dimension 0 of a Halide buffer is the innermost one of ours."""

    AUTOSCHEDULERS = {"Mullapudi2016": "libautoschedule_mullapudi2016.so", "Adams2019": "libautoschedule_adams2019.so"}

    def __init__(self, threads, device):
        if device != "cpu":
            raise ImportError("only measured on CPUs")
        self.module = importlib.import_module("halide")
        warnings.simplefilter("ignore", RuntimeWarning)  # numbers of Python are f32 here
        self.threads = threads
        os.environ["HL_NUM_THREADS"] = str(threads)
        self.names = {"hl": self.module}
        for letter in "x y z w".split():
            self.names[letter] = self.module.Var(letter)
        folder = os.path.dirname(self.module.__file__)
        for name in self.AUTOSCHEDULERS.values():
            for libraries in ("lib64", "lib"):
                path = os.path.join(folder, libraries, name)
                if os.path.exists(path):
                    self.module.load_plugin(path)

    def tensor(self, array, dtype):
        del dtype
        return self.module.Buffer(array)

    def autoscheduled(self, func, shape, scheduler):
        hl = self.module
        for var, extent in zip(func.args(), reversed(shape)):
            func.set_estimate(var, 0, extent)
        pipeline = hl.Pipeline(func)
        target = hl.get_host_target()
        options = {"parallelism": str(self.threads)}
        pipeline.apply_autoscheduler(target, hl.AutoschedulerParams(scheduler, options))
        pipeline.compile_jit(target)
        return pipeline

    @staticmethod
    def by_hand(func, shape):
        """What a programmer writes first: components unrolled, vectors along the rows, rows in parallel."""
        extents = list(reversed(shape))
        inner = 0
        if len(extents) > 2 and extents[0] <= 4:
            func.bound(func.args()[0], 0, extents[0]).unroll(func.args()[0])
            inner = 1
        func.vectorize(func.args()[inner], 16).parallel(func.args()[-1])

    def scheduled(self, func):
        pipeline = self.module.Pipeline(func)
        pipeline.compile_jit(self.module.get_host_target())
        return pipeline

    def candidates(self, expression, names):
        if names.get("schedule"):
            func = eval(expression, names)
            names["schedule"](func)
            yield self.scheduled(func)
            return
        shape = names["_out"].shape
        for scheduler in [*self.AUTOSCHEDULERS, None]:
            fresh = dict(names)
            exec(names["_prepare"], fresh)  # a schedule changes the Funcs that it is for
            func = eval(expression, fresh)
            try:
                if scheduler is None:
                    self.by_hand(func, shape)
                    yield self.scheduled(func)
                else:
                    yield self.autoscheduled(func, shape, scheduler)
            except Exception as error:
                print(f"halide: {scheduler or 'by hand'}: {error}", file=sys.stderr)

    def call(self, expression, names):
        out = names["_out"]
        buffer = self.module.Buffer(out)

        def runner(pipeline):
            def run():
                pipeline.realize(buffer)
                return out
            return run

        def seconds(run):
            run()
            return min(self.time(run, 1) for _ in range(3))
        self.memory = names  # the pipelines keep no reference to the arrays that they read
        runs = [runner(pipeline) for pipeline in self.candidates(expression, names)]
        if not runs:
            raise RuntimeError("no autoscheduler schedules it")
        return min(runs, key=seconds) if len(runs) > 1 else runs[0]

    def values(self, result):
        return result


class Numpy(Peer):
    """Modules that work on arrays of NumPy (OpenCV, SciPy)."""

    def __init__(self, name, threads, device):
        if device != "cpu":
            raise ImportError("only measured on CPUs")
        self.module = importlib.import_module(name)
        self.names = {name: self.module}
        if hasattr(self.module, "setNumThreads"):
            self.module.setNumThreads(threads)

    def tensor(self, array, dtype):
        del dtype
        return array

    def call(self, expression, names):
        code = compile(expression, "peer", "eval")
        return lambda: eval(code, names)

    def values(self, result):
        return result


def open_peer(name, threads, device):
    known = {"torch": Torch, "jax": Jax, "halide": Halide}
    return known[name](threads, device) if name in known else Numpy(name, threads, device)


class Driver:
    def __init__(self, name, threads, device):
        self.name, self.threads, self.device = name, threads, device
        self.peer, self.run = None, None

    def describe(self, _):
        if np is None:
            raise ImportError("this Python has no NumPy")
        self.peer = open_peer(self.name, self.threads, self.device)
        version = getattr(self.peer.module, "__version__", "of unknown version")
        where = f"{self.threads} threads" if self.device == "cpu" else self.device
        return {"description": f"{self.name} {version}, {where}"}

    def prepare(self, task):
        out = mapped(task["output"])
        self.peer.allow_tf32(task["tf32"])
        names = {"np": np, "_out": aligned(out), **self.peer.names, **task["attributes"]}
        for name, tensor in task["inputs"].items():
            names[name] = self.peer.tensor(aligned(mapped(tensor)), tensor["dtype"])
        names["_prepare"] = "\n".join(task["prepare"])
        exec(names["_prepare"], names)
        self.run = self.peer.call(task["expression"], names)
        out[...] = self.peer.values(self.run()).reshape(out.shape)
        return {}

    def time(self, task):
        return {"ns": self.peer.time(self.run, task["count"])}

    def answer(self, line):
        task = json.loads(line)
        try:
            return {"describe": self.describe, "prepare": self.prepare, "run": self.time}[task["do"]](task)
        except Exception as error:  # whatever a peer raises is the answer
            return {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}


def main():
    # What a module prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    driver = Driver(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    for line in sys.stdin:
        answers.write(json.dumps(driver.answer(line)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
