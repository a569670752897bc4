"""Programs as PyTorch operations, with gradients of any order.

    op = tilejit.torch.op("mylib::mm", program)
    torch.compile(lambda x: torch.relu(op(x, w)).sum(), fullgraph=True)(x).backward()
"""
from __future__ import annotations

import re
from typing import Any, Optional, Sequence

import torch

from . import _core
from . import Engine, Program, Spec, default_engine, program as make_program
from ._sizes import evaluate, names_of

_TYPES = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
          "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
          "bool": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
          "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_PLAIN = (torch.Tensor, torch.nn.Parameter)

# Asked at every call. Exporting without Dynamo is a mode of the dispatcher's.
_is_compiling = torch.compiler.is_dynamo_compiling
_is_transforming = torch._C._are_functorch_transforms_active
_modes = torch._C._len_torch_dispatch_stack

_libraries: dict[str, torch.library.Library] = {}
_cuda_engines: dict[int, Engine] = {}


def op(name: str, program: Program) -> "Op":
    """`program` as the operation `name` ("namespace::name"): forward, a generated gradient of any order, shape
    inference for torch.compile (static and dynamic), and vmap by a loop.

    Takes a tensor for each input, in their order, and a number for each parameter with a default; gives a tensor, or a
    tuple of them. CPU tensors run on the program's engine, CUDA tensors on one for their device, in PyTorch's current
    stream and with memory of its allocator, also while a CUDA graph is captured (after a run outside of one, which
    compiles). An operation of the same name is replaced."""
    if not re.fullmatch(r"\w+::\w+", name):
        raise ValueError(f"{name!r} is not of the form 'namespace::name'")
    return Op(name, program)


def _cuda_engine(index: int) -> Engine:
    """The engine of a GPU, whose memory is PyTorch's: seen by its statistics, and recorded with its CUDA graphs."""
    if index not in _cuda_engines:
        def allocate(size: int, stream: int) -> int:
            return int(torch.cuda.caching_allocator_alloc(size, index, stream))

        memory = (allocate, torch.cuda.caching_allocator_delete)
        _cuda_engines[index] = Engine(f"cuda:{index}", device_memory=memory)
    return _cuda_engines[index]


class Op:
    """A program that PyTorch knows; see op()."""

    def __init__(self, name: str, program: Program):
        self.name, self.program = name, program
        self._signature = program.signature
        declared = {i["name"]: i for i in self._signature["inputs"]}
        self._inputs = [declared[n] for n in program.inputs]  # parameters with defaults come last
        self._tensors = sum("default" not in i for i in self._inputs)
        self._run = _core.Unchecked(program)
        self._eager = _core.Eager(program, self._tensors, _PLAIN)
        self.vjps: dict[tuple[str, tuple[int, ...]], Op] = {}
        self._numbers: dict[tuple[bool, ...], tuple[int, ...]] = {}  # of the inputs that want a gradient
        self._on_cuda: dict[int, Any] = {}
        self._register()
        self.overload = getattr(getattr(torch.ops, name.split("::")[0]), name.split("::")[1]).default
        self._apply, self._transformed = _autograd_function(self).apply, _transformable_function(self)

    def __repr__(self) -> str:
        return f"<tilejit.torch.Op {self.name}: {self.program!r}>"

    # Calls.

    def __call__(self, *args: Any) -> Any:
        if _is_compiling():
            return self.overload(*args)
        if _is_transforming():
            return self._transformed.apply(*args)
        if _modes() > 0:
            return self.overload(*args)
        result = self._eager(*args)
        if result is None:  # a gradient is wanted
            return self._apply(*args)
        # What the dispatcher has to see: subclasses and other devices.
        return self.overload(*args) if result is NotImplemented else result

    def _run_cuda(self, *args: Any) -> Any:
        index = next(a.device.index for a in args if isinstance(a, torch.Tensor) and a.is_cuda)
        if index not in self._on_cuda:
            moved = make_program(self.program.text, self.program.language, name=self.program.name,
                                 engine=_cuda_engine(index))
            constants = self.program.constants
            self._on_cuda[index] = _core.Unchecked(moved.bind(**constants) if constants else moved)
        return self._on_cuda[index](*args)

    # What PyTorch is told.

    def _schema(self) -> str:
        arguments = []
        for number, declared in enumerate(self._inputs):
            if "default" not in declared:
                arguments.append(f"Tensor x{number}")
            elif len(declared["default"]) > 1:
                arguments.append(f"float[]? x{number}=None")
            else:
                kind = "float" if declared["type"].startswith(("f", "b")) and declared["type"] != "bool" else "int"
                value = declared["default"][0]
                arguments.append(f"{kind} x{number}={value if kind == 'float' else int(value)}")
        results = ", ".join("Tensor" for _ in self.program.outputs)
        return f"({', '.join(arguments)}) -> {results if len(self.program.outputs) == 1 else f'({results})'}"

    def _register(self) -> None:
        namespace, short = self.name.split("::")
        if self.name in _libraries:
            _libraries.pop(self.name)._destroy()
        library = torch.library.Library(namespace, "FRAGMENT")
        _libraries[self.name] = library
        library.define(short + self._schema(), tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(short, lambda *args: self._run(*args), "CPU")
        library.impl(short, lambda *args: self._run_cuda(*args), "CUDA")
        torch.library.register_fake(self.name, lambda *args: self._fake(*args), lib=library)
        torch.library.register_autograd(self.name, self._backward_of_op, setup_context=_setup_context, lib=library)
        torch.library.register_vmap(self.name, self._batched, lib=library)

    # Shapes and types, of sizes that may be symbols.

    def _fake(self, *args: Any) -> Any:
        given = {n["name"]: a for n, a in zip(self._inputs, args)}
        given.update({n: c for n, c in self.program.constants.items()})
        tensors = [given.get(i["name"]) for i in self._signature["inputs"]]
        shapes = [tuple(t.shape) if t is not None and hasattr(t, "shape") else None for t in tensors]
        symbolic = any(isinstance(s, torch.SymInt) for shape in shapes if shape is not None for s in shape)
        specs = self._inferred(args, (_hint if symbolic and self._has_sizes() else int))
        device = next((a.device for a in args if isinstance(a, torch.Tensor)), torch.device("cpu"))
        if symbolic and self._has_sizes():
            names = names_of(self._signature, shapes, _check_same)
            sizes: list[Sequence[Any]] = [[evaluate(d, names) for d in o["dims"]] for o in self._signature["outputs"]]
        else:
            sizes = [spec.shape for spec in specs]
        made = tuple(torch.empty(tuple(s), dtype=_TYPES[spec.dtype], device=device) for s, spec in zip(sizes, specs))
        return made[0] if len(made) == 1 else made

    def _has_sizes(self) -> bool:
        return all(o["dims"] is not None for o in self._signature["outputs"])

    def _inferred(self, args: Sequence[Any], size: Any) -> tuple[Spec, ...]:
        specs = {i["name"]: Spec(tuple(size(s) for s in a.shape), _NAMES[a.dtype]) if isinstance(a, torch.Tensor) else a
                 for i, a in zip(self._inputs, args)}
        return self.program.infer(**{name: s for name, s in specs.items() if s is not None})

    # Gradients.

    def vjp(self, output: str, wrt: tuple[int, ...]) -> "Op":
        """The operation that takes the inputs and the gradient of `output`, and gives those of the inputs numbered."""
        key = (output, wrt)
        if key not in self.vjps:
            names = [self._inputs[i]["name"] for i in wrt]
            gradient = self.program.grad(output, names)
            wanted = gradient.with_outputs(*gradient.outputs[len(self.program.outputs):])
            suffix = f"_vjp{self.program.outputs.index(output)}_{'_'.join(map(str, wrt))}"
            self.vjps[key] = Op(self.name + suffix, wanted)
        return self.vjps[key]

    def _gradients(self, args: Sequence[Any], needed: tuple[bool, ...], grads: Sequence[Any]) -> list[Any]:
        wrt = self._numbers.get(needed)
        if wrt is None:
            wrt = self._numbers[needed] = tuple(i for i in range(self._tensors) if needed[i])
        total: list[Any] = [None] * len(args)
        for output, grad in zip(self.program.outputs, grads):
            if grad is None or not wrt:
                continue
            results = self.vjp(output, wrt)(*args[:self._tensors], grad, *args[self._tensors:])
            for i, result in zip(wrt, results if isinstance(results, tuple) else (results,)):
                if result.dtype != args[i].dtype:
                    result = result.to(args[i].dtype)
                total[i] = result if total[i] is None else total[i] + result
        return total

    def _backward_of_op(self, ctx: Any, *grads: Any) -> Any:
        args = ctx.saved_tensors
        if len(self._inputs) > self._tensors:
            args = (*args, *getattr(ctx, "parameters", ()))
        total = self._gradients(args, ctx.needs_input_grad, grads)
        return total[0] if len(total) == 1 else tuple(total)

    # vmap.

    def _batched(self, info: Any, in_dims: Sequence[Optional[int]], *args: Any) -> Any:
        rows = [self(*(a if d is None else a.select(d, i) for a, d in zip(args, in_dims)))
                for i in range(info.batch_size)]
        if len(self.program.outputs) == 1:
            return torch.stack(rows), 0
        return tuple(torch.stack(column) for column in zip(*rows)), tuple(0 for _ in self.program.outputs)


def _hint(size: Any) -> int:
    return size if isinstance(size, int) else int(getattr(size.node, "hint", None) or 8)


def _check_same(a: Any, b: Any, name: str) -> None:
    torch._check(a == b, lambda: f"the dimension {name} has two sizes, {a} and {b}")


def _setup_context(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
    ctx.save_for_backward(*[a for a in inputs if isinstance(a, torch.Tensor)])
    ctx.parameters = [a for a in inputs if not isinstance(a, torch.Tensor)]
    ctx.set_materialize_grads(False)


def _transformable_function(op: Op) -> Any:
    """For calls under torch.func and vmap: what each of them makes of a call, down to one on plain tensors."""

    class Function(torch.autograd.Function):
        setup_context = staticmethod(_setup_context)

        @staticmethod
        def forward(*args: Any) -> Any:
            return op(*args)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return op._backward_of_op(ctx, *grads)

        @staticmethod
        def vmap(info: Any, in_dims: Sequence[Optional[int]], *args: Any) -> Any:
            return op._batched(info, in_dims, *args)

    return Function


def _autograd_function(op: Op) -> Any:
    """For eager calls: less work than the dispatcher's way."""
    run, tensors = op._run, op._tensors

    def keep(ctx: Any, args: Sequence[Any]) -> None:
        if len(args) == tensors:
            ctx.save_for_backward(*args)
        else:
            ctx.save_for_backward(*args[:tensors])
            ctx.parameters = args[tensors:]

    def several(ctx: Any, *args: Any) -> Any:
        keep(ctx, args)
        ctx.set_materialize_grads(False)
        results = run(*args)
        whole = [r for r in results if not r.is_floating_point()]
        if whole:
            ctx.mark_non_differentiable(*whole)
        return results

    def one(ctx: Any, *args: Any) -> Any:
        keep(ctx, args)
        result = run(*args)
        if not result.is_floating_point():
            ctx.mark_non_differentiable(result)
        return result

    class Function(torch.autograd.Function):
        forward = staticmethod(one if len(op.program.outputs) == 1 else several)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return op._backward_of_op(ctx, *grads)

    return Function
