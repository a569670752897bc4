"""The other end of bench/peers/python.cpp: one Python module as a peer of tile-bench.

Usage: driver.py MODULE THREADS cpu|cuda. Reads a JSON object for each line of standard input and answers
with one: describe -> description; prepare (inputs, outputs, statements, expression) -> how many outputs there
are, after the first call has left its values in their files; run (count) -> ns; memory -> bytes, where the module tells.
Inputs stand under their names as the module's own tensors, and all of them in `inputs`; `attributes` are those of the
workload. Statements may define own_layout(name, tensor), what an input is laid out as before the timing, and
given_layout(name, tensor), what a weight after a step of training is turned back by."""

import contextlib
import importlib
import json
import mmap
import os
import re
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
             "bool": np.bool_, "f8e4m3": np.uint8, "f8e5m2": np.uint8}
# Types that NumPy lacks, by their names in modules that have them.
OTHER = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


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

    description = None

    def allow_tf32(self, allowed):
        """Whether factors of f32 products may be rounded to tf32, from now on."""

    def allow_f64(self, allowed):
        """Whether tensors of f64 are to stay so, from now on."""

    def allocated(self):
        """What a call of the last expression allocates at most, results included; None: not known."""

    def training(self, step, names):
        raise TypeError("trains nothing")

    def time(self, run, count):
        start = time.perf_counter_ns()
        for _ in range(count):
            run()
        return time.perf_counter_ns() - start


class Torch(Peer):
    caller_works = True  # beside the threads that the library starts

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
        t = t.view(getattr(self.module, OTHER[dtype])) if dtype in OTHER else t
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
        self.run = lambda: eval(code, names)
        return self.run

    def training(self, step, names):
        torch, inputs = self.module, names["inputs"]

        def run():
            with torch.enable_grad():
                weights = {name: inputs[name].detach().requires_grad_() for name in step.weights}
                loss = step.losses({**inputs, **weights})
                gradients = torch.autograd.grad(loss, list(weights.values()))
            with torch.no_grad():
                return step.results(inputs, loss, gradients)
        self.run = run
        return run

    def allocated(self):
        """From what the allocator tells; what libraries allocate beside it is not seen."""
        if self.device != "cpu":
            return self.allocated_on_gpu()
        profiler = importlib.import_module("torch.profiler")
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            kept = self.run()
        del kept
        now = most = 0
        events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
        for event in sorted(events, key=lambda e: e.start_ns()):
            now += event.nbytes()
            most = max(most, now)
        return most

    def allocated_on_gpu(self):
        cuda = self.module.cuda
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        kept = self.run()
        cuda.synchronize()
        most = cuda.max_memory_allocated() - before
        del kept
        return most

    def values(self, result):
        if result.dtype == self.module.bfloat16:
            result = result.contiguous().view(self.module.int16)
        array = result.detach().contiguous().cpu().numpy()
        return array.view(np.uint16) if array.dtype == np.int16 else array


class TorchCompile(Torch):
    """What torch.compile makes of the same expression, which is to use `inputs` alone."""

    def __init__(self, threads, device):
        super().__init__(threads, device)
        self.description = f"torch.compile of torch {self.module.__version__}, {threads} threads"

    def compiled(self, function, names):
        torch, inputs = self.module, names["inputs"]
        torch.compiler.reset()
        grad = torch.no_grad()
        grad.__enter__()
        compiled = torch.compile(function)
        self.run = lambda: compiled(inputs)
        return self.run

    def call(self, expression, names):
        return self.compiled(function_of(expression, names), names)

    def training(self, step, names):
        def run(inputs):
            weights = {name: inputs[name] for name in step.weights}
            differentiated = self.module.func.grad_and_value(lambda own: step.losses({**inputs, **own}))
            gradients, loss = differentiated(weights)
            return step.results(inputs, loss, [gradients[name] for name in step.weights])
        return self.compiled(run, names)


class Mkldnn(Torch):
    """oneDNN as PyTorch carries it, called as its compiler does: filters lie in the layout that the library asks for."""

    def __init__(self, threads, device):
        if device != "cpu":
            raise ImportError("only measured on CPUs")
        super().__init__(threads, device)
        if not self.module.backends.mkldnn.is_available():
            raise ImportError("this PyTorch is built without oneDNN")
        self.names.update(prepared=self.prepared)
        found = re.search(r"MKL-DNN v?([0-9.]+)", self.module.__config__.show())
        self.description = f"oneDNN {found[1] if found else '?'} inside torch {self.module.__version__}, {threads} threads"

    def prepared(self, picture, weights, padding, stride=1, dilation=1, groups=1, bias=None, then="none"):
        """A call that convolves; the axes are PyTorch's. `then` is what follows, "relu" for one."""
        operations, space = self.module.ops.mkldnn, picture.dim() - 2
        window = [[padding] * space, [stride] * space, [dilation] * space, groups]
        weights = operations._reorder_convolution_weight(weights.contiguous(), *window, list(picture.shape))
        return lambda: operations._convolution_pointwise(picture, weights, bias, *window, then, [], "")


class Jax(Peer):
    def __init__(self, threads, device):
        del threads  # XLA takes the cores of its affinity
        os.environ["JAX_PLATFORMS"] = device
        self.module = importlib.import_module("jax")
        self.names = {"jax": self.module, "jnp": importlib.import_module("jax.numpy"),
                      "lax": importlib.import_module("jax.lax")}

    def tensor(self, array, dtype):
        jnp = self.names["jnp"]
        return jnp.asarray(array).view(getattr(jnp, OTHER[dtype])) if dtype in OTHER else jnp.asarray(array)

    def allow_f64(self, allowed):
        self.module.config.update("jax_enable_x64", allowed)

    def jitted(self, function, arrays):
        self.compiled = self.module.jit(function).lower(arrays).compile()
        return lambda: self.module.block_until_ready(self.compiled(arrays))

    def call(self, expression, names):
        code = compile(expression, "peer", "eval")
        arrays = {k: v for k, v in names.items() if isinstance(v, self.module.Array)}
        whole = names["inputs"]
        return self.jitted(lambda given: eval(code, {**names, **given, "inputs": {k: given[k] for k in whole}}), arrays)

    def training(self, step, names):
        def run(inputs):
            weights = {name: inputs[name] for name in step.weights}
            loss, gradients = self.module.value_and_grad(lambda own: step.losses({**inputs, **own}))(weights)
            return step.results(inputs, loss, [gradients[name] for name in step.weights])
        return self.jitted(run, names["inputs"])

    def allocated(self):
        memory = self.compiled.memory_analysis()
        return memory.temp_size_in_bytes + memory.output_size_in_bytes

    def values(self, result):
        array = np.asarray(result)
        return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


class Halide(Peer):
    """The expression is a Func; unless the statements define `schedule`, every autoscheduler schedules it,
    and so does `by_hand`; the fastest code is what is timed. Dimension 0 of a Halide buffer is the innermost one of ours."""
    caller_works = True  # beside the threads that the library starts


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


class Tvm(Peer):
    """The expression is a tensor of te. Its loops are tiled, shared out to the threads and vectorised in several ways;
    the fastest is what is timed."""

    TILES = [(4, 16), (4, 32), (8, 32), (6, 64), (8, 64), (16, 32)]

    def __init__(self, threads, device):
        if device != "cpu":
            raise ImportError("only measured on CPUs")
        os.environ["TVM_NUM_THREADS"] = str(threads)
        self.module = importlib.import_module("tvm")
        self.te = importlib.import_module("tvm.te")
        self.names = {"tvm": self.module, "te": self.te, "topi": importlib.import_module("tvm.topi")}
        self.schedules = importlib.import_module("tvm.s_tir").Schedule
        native = self.module.get_global_func("target.llvm_get_system_cpu", allow_missing=True)
        self.target = self.module.target.Target({"kind": "llvm", **({"mcpu": str(native())} if native else {})})
        self.given = []

    def tensor(self, array, dtype):
        if dtype != "f32":
            raise TypeError("only f32 is measured")
        place = self.te.placeholder(array.shape, name=f"input{len(self.given)}")
        self.given.append((place, self.module.runtime.tensor(array)))
        return place

    @staticmethod
    def split_up(schedule, block, rows, columns, depth):
        """Rows x columns of the innermost axes as one tile, what is outside of it in parallel."""
        loops = schedule.get_loops(block)
        kinds = [str(v.iter_type) for v in schedule.get(block).iter_vars]
        space = [l for l, kind in zip(loops, kinds) if not kind.endswith("2")]
        reduced = [l for l, kind in zip(loops, kinds) if kind.endswith("2")]
        outer, inner = space[:-2], []
        for loop, extent in zip(space[-2:], [rows, columns][-len(space):]):
            o, i = schedule.split(loop, [None, extent])
            outer.append(o)
            inner.append(i)
        if reduced:
            *reduced, last = reduced
            reduced += schedule.split(last, [None, depth])
        schedule.reorder(*outer, *reduced, *inner)
        parallel = schedule.fuse(*outer) if len(outer) > 1 else outer[0]
        schedule.parallel(parallel)
        schedule.vectorize(inner[-1])
        if len(inner) > 1:
            schedule.unroll(inner[0])
        if reduced:
            schedule.decompose_reduction(block, reduced[0])

    def candidates(self, result):
        arguments = [place for place, _ in self.given]
        arguments = [place for place in arguments if place.op in reached(result)]
        self.values_given = [value for place, value in self.given if place in arguments]
        function = self.te.create_prim_func([*arguments, result])
        for rows, columns in self.TILES:
            for depth in (1, 4):
                schedule = self.schedules(self.module.IRModule({"main": function}))
                root = schedule.get_sblock("root", func_name="main")
                try:
                    for block in schedule.get_child_blocks(root):
                        self.split_up(schedule, block, rows, columns, depth)
                    yield self.module.compile(schedule.mod, target=self.target)["main"]
                except Exception as error:
                    print(f"tvm: {rows}x{columns}: {error}", file=sys.stderr)

    def call(self, expression, names):
        result = eval(expression, names)
        out = self.module.runtime.tensor(np.zeros(names["_out"].shape, np.float32))
        best = None
        for compiled in self.candidates(result):
            def run(compiled=compiled):
                compiled(*self.values_given, out)
                return out
            run()
            time = min(self.time(run, 1) for _ in range(3))
            if best is None or time < best[0]:
                best = time, run
        self.given = []
        if best is None:
            raise RuntimeError("no schedule compiles")
        return best[1]

    def values(self, result):
        return result.numpy()


def reached(tensor):
    """The operations that a tensor of te is computed from."""
    found, todo = [], [tensor.op]
    while todo:
        operation = todo.pop()
        found.append(operation)
        todo += [t.op for t in operation.input_tensors]
    return found


class Plaidml(Peer):
    """PlaidML 0.7 runs programs in Tile: `program` is the workload's own."""

    def __init__(self, threads, device):
        del threads  # its LLVM device takes the cores of its affinity
        if device != "cpu":
            raise ImportError("only measured on CPUs")
        prefix = sys.prefix
        os.environ.setdefault("PLAIDML_NATIVE_PATH", os.path.join(prefix, "lib", "libplaidml.so"))
        os.environ.setdefault("RUNFILES_DIR", os.path.join(prefix, "share", "plaidml"))
        settings = os.path.join(prefix, "share", "plaidml", "experimental.json")
        os.environ.setdefault("PLAIDML_EXPERIMENTAL_CONFIG", settings)
        self.module = importlib.import_module("plaidml")
        self.context = self.module.Context()
        self.module.settings.setup = self.module.settings.experimental = True
        self.module.settings.device_ids = ["llvm_cpu.0"]
        self.device = self.module.Device(self.context, self.module.devices(self.context)[0])
        self.names = {}
        self.description = "plaidml 0.7, llvm_cpu.0"

    def fresh(self, shape):
        kind = self.module.DType.FLOAT32
        return self.module.Tensor(self.device, self.module.Shape(self.context, kind, *shape))

    def tensor(self, array, dtype):
        if dtype != "f32":
            raise TypeError("only f32 is measured")
        tensor = self.fresh(array.shape)
        with tensor.mmap_discard(self.context) as memory:
            memory.copy_from_ndarray(array)
            memory.writeback()
        return tensor

    def call(self, expression, names):
        program = eval(expression, names)
        inputs, outputs = re.search(r"function\s*\((.*?)\)\s*->\s*\((.*?)\)", program, re.S).groups()
        self.shape = names["_out"].shape
        self.out = self.fresh(self.shape)
        self.invoker = self.module.Invoker(self.context, self.module.Function(program))
        for name in re.findall(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?", inputs):
            self.invoker.set_input(name, names[name])
        self.invoker.set_output(outputs.strip(), self.out)
        return self.invoker.invoke

    def wait(self):
        with self.out.mmap_current():
            pass

    def time(self, run, count):
        self.wait()
        start = time.perf_counter_ns()
        for _ in range(count):
            run()
        self.wait()
        return time.perf_counter_ns() - start

    def values(self, result):
        array = np.zeros(self.shape, np.float32)
        with self.out.mmap_current() as memory:
            memory.copy_to_ndarray(array)
        return array


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


def function_of(expression, names):
    """The expression as a function of `inputs`, for what reads Python's code."""
    scope = {}
    exec(f"def network(inputs):\n    return {expression}", names, scope)
    return scope["network"]


class Step:
    """A step of training: the loss of a network, and what an optimiser makes of each weight."""

    def __init__(self, task, names):
        train = task["train"]
        self.weights, self.states, self.shared = train["weights"], train["states"], train["shared"]
        self.each = 1 + len(self.states)  # results of a weight
        network, number = function_of(task["expression"], names), train["loss"]
        optimisers = {f"{name}_{state}" for name in self.weights for state in self.states} | set(self.shared)
        own = [name for name in task["inputs"] if name not in optimisers]
        self.losses = lambda inputs: network({name: inputs[name] for name in own})[number]
        scope = dict(names)
        exec("\n".join(train["prepare"]), scope)
        exec(f"def update({', '.join(train['arguments'])}):\n    return {train['expression']}", scope)
        self.update = scope["update"]
        order = {name: i for i, name in enumerate([*self.states, *self.shared])}
        self.order = [order[name] for name in train["arguments"][2:]]

    def results(self, inputs, loss, gradients):
        list_of = [loss]
        for name, gradient in zip(self.weights, gradients):
            others = [inputs[f"{name}_{state}"] for state in self.states] + [inputs[each] for each in self.shared]
            list_of += self.update(inputs[name], gradient, *[others[i] for i in self.order])
        return list_of


def open_peer(name, threads, device):
    known = {"torch": Torch, "torch_compile": TorchCompile, "mkldnn": Mkldnn, "jax": Jax, "halide": Halide, "tvm": Tvm, "plaidml": Plaidml}
    return known[name](threads, device) if name in known else Numpy(name, threads, device)


@contextlib.contextmanager
def kept_apart():
    """This thread on one processor, the library's others off it: bench/measure/timing.cpp says why."""
    processors = os.sched_getaffinity(0)
    here = min(processors)

    def place(where):
        for task in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(task), where)

    if len(processors) > 1:
        place(processors - {here})
        os.sched_setaffinity(0, {here})
    yield
    place(processors)


class Driver:
    def __init__(self, name, threads, device):
        self.name, self.threads, self.device = name, threads, device
        self.peer, self.run = None, None

    def describe(self, _):
        if np is None:
            raise ImportError("this Python has no NumPy")
        self.peer = open_peer(self.name, self.threads, self.device)
        if self.peer.description:
            return {"description": self.peer.description}
        version = getattr(self.peer.module, "__version__", "of unknown version")
        where = f"{self.threads} threads" if self.device == "cpu" else self.device
        return {"description": f"{self.name} {version}, {where}"}

    def prepare(self, task):
        outs = [mapped(output) for output in task["outputs"]]
        self.peer.allow_tf32(task["tf32"])
        self.peer.allow_f64(any(tensor["dtype"] == "f64" for tensor in task["inputs"].values()))
        names = {"np": np, "_out": aligned(outs[0]), **self.peer.names, **task["attributes"]}
        names["program"] = "\n".join(line for line in task["program"].splitlines() if not line.startswith("//"))
        inputs = {}
        for name, tensor in task["inputs"].items():
            inputs[name] = self.peer.tensor(aligned(mapped(tensor)), tensor["dtype"])
        names.update(inputs)
        names["_prepare"] = "\n".join(task["prepare"])
        exec(names["_prepare"], names)
        step = Step(task, names) if "train" in task else None
        if "own_layout" in names:
            inputs = {name: names["own_layout"](self.weight_of(name, step), t) for name, t in inputs.items()}
            names.update(inputs)
        names["inputs"] = inputs
        self.run = self.peer.training(step, names) if step else self.peer.call(task["expression"], names)
        return {"outputs": self.keep(self.run(), outs, step, names.get("given_layout"))}

    @staticmethod
    def weight_of(name, step):
        """The weight whose state an input is; otherwise its own name."""
        if step:
            for state in step.states:
                if name.endswith("_" + state) and name[:-len(state) - 1] in step.weights:
                    return name[:-len(state) - 1]
        return name

    def keep(self, result, outs, step, given_layout):
        """The values of the first call, in the layouts of the program's outputs."""
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        for i, (value, out) in enumerate(zip(results, outs)):
            if step and i > 0 and given_layout:
                value = given_layout(step.weights[(i - 1) // step.each], value)
            out[...] = self.peer.values(value).reshape(out.shape)
        return min(len(results), len(outs))

    def memory(self, _):
        bytes_allocated = self.peer.allocated()
        return {} if bytes_allocated is None else {"bytes": int(bytes_allocated)}

    def time(self, task):
        caller_works = getattr(self.peer, "caller_works", False) and self.device == "cpu"
        with kept_apart() if caller_works else contextlib.nullcontext():
            return {"ns": self.peer.time(self.run, task["count"])}

    def answer(self, line):
        task = json.loads(line)
        try:
            return {"describe": self.describe, "prepare": self.prepare, "run": self.time, "memory": self.memory}[task["do"]](task)
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
