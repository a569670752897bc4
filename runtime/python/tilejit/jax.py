"""Programs as JAX operations on CPUs and GPUs, with gradients of any order.

    op = tilejit.jax.op(program)
    jax.jit(jax.grad(lambda a, b: op(a, b).sum()))(a, b)
"""
from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import pathlib
from typing import Any, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from . import Engine, Program, Spec, program as make_program

_TARGET = "tilejit_call"
_TYPES = {"f8e4m3": jnp.float8_e4m3fn, "f8e5m2": jnp.float8_e5m2,
          "f16": jnp.float16, "bf16": jnp.bfloat16, "f32": jnp.float32, "f64": jnp.float64, "bool": jnp.bool_,
          "i8": jnp.int8, "i16": jnp.int16, "i32": jnp.int32, "i64": jnp.int64, "u8": jnp.uint8, "u16": jnp.uint16,
          "u32": jnp.uint32, "u64": jnp.uint64}

_HOST = -1

_library: Any = None
_engines: dict[int, Engine] | None = None
_programs: dict[tuple[int, int], Program] = {}  # by key and device, for ever: compiled computations call them


def _loaded() -> Any:
    global _library
    if _library is None:
        path = pathlib.Path(__file__).parent / "_jax.so"
        if not path.exists():
            raise ImportError("this build of tilejit has no custom calls for JAX: build it where jaxlib is installed")
        library = ctypes.CDLL(str(path))
        library.tilejit_jax_add.argtypes = [ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p]
        library.tilejit_jax_add.restype = None
        jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(library.tilejit_jax_call), platform="cpu")
        jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(library.tilejit_jax_call_on_gpu), platform="CUDA")
        _library = library
    return _library


def _gpu_engines() -> dict[int, Engine]:
    """An engine for each GPU that JAX uses, by its number. Asked once something is traced: JAX has begun then."""
    global _engines
    if _engines is None:
        try:
            numbers = {device.local_hardware_id for device in jax.local_devices(backend="cuda")}
        except RuntimeError:  # JAX has no GPU
            numbers = set()
        _engines = {number: Engine(f"cuda:{number}") for number in sorted(numbers)}
    return _engines


def op(program: Program) -> "Op":
    """`program` as a function of JAX arrays: under jit, grad (of any order, also of some inputs alone), vmap (by a loop).

    Takes an array for each input, in their order, then numbers for parameters with defaults; gives an array, or a tuple
    of them. On CPUs and NVIDIA GPUs, there in XLA's stream and with temporaries from its allocator; forward mode (jvp) is
    not defined. Gradients are those of reverse mode."""
    return Op(program)


@dataclasses.dataclass(frozen=True)
class _Static:
    """Which inputs were varied: not an array."""

    perturbed: tuple[bool, ...]


jax.tree_util.register_pytree_node(_Static, lambda s: ((), s), lambda s, _: s)


def _shaped(value: Any) -> Spec:
    return Spec(tuple(value.shape), str(value.dtype))


class Op:
    """A program that JAX knows; see op()."""

    def __init__(self, program: Program):
        _loaded()
        self.program = program
        self._declared = program.signature["inputs"]  # as the C interface takes them
        by_name = {i["name"]: i for i in self._declared}
        self._inputs = [by_name[n] for n in program.inputs]
        self._constants = {n: jnp.asarray(c) for n, c in program.constants.items()}
        digest = hashlib.sha256(f"{program.language}\n{program.text}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "little", signed=True)
        self._add(_HOST, program)
        self.vjps: dict[tuple[str, tuple[int, ...]], Op] = {}
        self._function = jax.custom_vjp(self._call)
        self._function.defvjp(self._forward, self._backward, symbolic_zeros=True)

    def __repr__(self) -> str:
        return f"<tilejit.jax.Op {self.program!r}>"

    def _add(self, device: int, program: Program) -> None:
        if (self._key, device) not in _programs:
            _programs[self._key, device] = program
            _library.tilejit_jax_add(self._key, device, program.handle)

    def _add_to_gpus(self) -> None:
        for number, engine in _gpu_engines().items():
            if (self._key, number) not in _programs:
                self._add(number, make_program(self.program.text, self.program.language, name=self.program.name,
                                               engine=engine))

    def __call__(self, *args: Any) -> Any:
        if len(args) > len(self._inputs):
            raise TypeError(f"{len(args)} inputs given, but the program takes {len(self._inputs)}")
        return self._function(*(self._as_array(i, args) for i in range(len(self._inputs))))

    def _as_array(self, i: int, args: Sequence[Any]) -> Any:
        declared = self._inputs[i]
        if i < len(args) and args[i] is not None:
            fixed = "default" in declared
            return jnp.asarray(args[i], _TYPES[declared["type"]] if fixed else None)
        if "default" not in declared:
            raise TypeError(f"input {declared['name']} is missing")
        value = declared["default"]
        return jnp.asarray(value if len(value) > 1 else value[0], _TYPES[declared["type"]])

    def _call(self, *args: Any) -> Any:
        self._add_to_gpus()
        given = {i["name"]: a for i, a in zip(self._inputs, args)} | self._constants
        # Where a parameter sets a size its value has to be known; the default's size is refused by the call itself.
        results = self.program.infer(**{n: _shaped(a) for n, a in given.items() if n not in self._constants})
        shapes = [self._result(name, spec) for name, spec in zip(self.program.outputs, results)]
        call = jax.ffi.ffi_call(_TARGET, shapes if len(shapes) > 1 else shapes[0], vmap_method="sequential")
        made = call(*(given[i["name"]] for i in self._declared), program=np.int64(self._key))
        return tuple(made) if len(shapes) > 1 else made

    def _result(self, name: str, spec: Spec) -> jax.ShapeDtypeStruct:
        dtype = np.dtype(_TYPES[spec.dtype])
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise TypeError(f"output {name} holds {spec.dtype}, which JAX has with jax_enable_x64 alone")
        return jax.ShapeDtypeStruct(spec.shape, dtype)

    # Gradients.

    def vjp(self, output: str, wrt: tuple[int, ...]) -> "Op":
        """The operation that takes the inputs and the gradient of `output`, and gives those of the inputs numbered."""
        key = (output, wrt)
        if key not in self.vjps:
            gradient = self.program.grad(output, [self._inputs[i]["name"] for i in wrt])
            self.vjps[key] = Op(gradient.with_outputs(*gradient.outputs[len(self.program.outputs):]))
        return self.vjps[key]

    def _forward(self, *args: Any) -> Any:
        values = [a.value for a in args]
        varied = tuple(bool(a.perturbed) and "default" not in i and jnp.issubdtype(a.value.dtype, jnp.floating)
                       for i, a in zip(self._inputs, args))
        return self._function(*values), (values, _Static(varied))

    def _backward(self, residuals: Any, cotangents: Any) -> Any:
        values, static = residuals
        wrt = tuple(i for i, varied in enumerate(static.perturbed) if varied)
        total: list[Any] = [_zero(v) for v in values]
        tensors = sum("default" not in i for i in self._inputs)
        outputs = cotangents if len(self.program.outputs) > 1 else (cotangents,)
        for output, cotangent in zip(self.program.outputs, outputs):
            if not wrt or isinstance(cotangent, SymbolicZero) or cotangent.dtype == jax.dtypes.float0:
                continue
            results = self.vjp(output, wrt)(*values[:tensors], cotangent, *values[tensors:])
            for i, result in zip(wrt, results if isinstance(results, tuple) else (results,)):
                total[i] = total[i] + result.astype(values[i].dtype)
        return tuple(total)


def _zero(value: Any) -> Any:
    if jnp.issubdtype(value.dtype, jnp.inexact):
        return jnp.zeros(value.shape, value.dtype)
    return np.zeros(value.shape, jax.dtypes.float0)
