"""The C interface of Tile JIT as Python classes."""
import os
from typing import Any, Callable, Optional, Sequence, Union

from ._support import Explanation, Spec

_Array = Any
"""Anything that speaks DLPack or the buffer protocol; numbers are tensors of rank 0."""

def version() -> int:
    """The version of the library: 10000 times the major, 100 times the minor, and the patch."""

class Engine:
    """What compiles and runs programs on one device, with its caches and limits; 0 and None leave the choice to the
    library."""
    def __init__(self, backend: str = "cpu", *, threads: int = 0,
                 cache_dir: Union[str, os.PathLike[str], None] = None, cache_mode: Optional[str] = None,
                 cache_limit: int = 0, memory_cache_limit: int = 0, memory_limit: int = 0, features: Optional[str] = None,
                 precision: Optional[str] = None, deterministic: bool = False, limit_compile_ms: int = 0,
                 device_memory: Optional[tuple[Callable[[int, int], int], Callable[[int], Any]]] = None) -> None:
        """device_memory: a pair of functions, (bytes, stream) -> address and (address), that take memory of a GPU in the
        order of a CUDA stream and give it back; None: the library's own."""
    @property
    def device(self) -> str:
        """The device in words."""
    @property
    def backend(self) -> str:
        """"cpu", "cuda", "cuda:1" … or "reference"."""
    @property
    def statistics(self) -> dict[str, int]:
        """What was compiled and found, as counts; bytes held."""
    def synchronize(self) -> None:
        """Waits for the work on the device and raises what failed in it."""

class Program:
    """A program of one of the languages, called with arrays; tilejit.program() makes them."""
    def __init__(self, engine: Engine, text: str, language: str, name: str) -> None: ...
    def __call__(self, *inputs: _Array, out: Any = None, stream: Optional[int] = None, **named: _Array) -> Any: ...
    @property
    def engine(self) -> Engine:
        """The engine that compiles and runs it."""
    @property
    def handle(self) -> int:
        """The address of the C interface's tile_program, valid while this object lives."""
    @property
    def language(self) -> str:
        """"tile", "mfg" or "lift"."""
    @property
    def name(self) -> str:
        """What errors call the text."""
    @property
    def text(self) -> str:
        """The program as text of its language."""
    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs in the order of a call; those with defaults come last."""
    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
    @property
    def signature(self) -> dict[str, Any]:
        """Inputs and outputs with their sizes, types and defaults, before any size is known."""
    @property
    def warnings(self) -> list[dict[str, Any]]:
        """What the text alone shows to be valid but surely not meant: a list of dicts."""
    @property
    def constants(self) -> dict[str, _Array]:
        """The arrays that bind() has fixed, by name."""
    def bind(self, **constants: _Array) -> Program:
        """The program in which the inputs named stay the same: they are copied once for each layout of the others."""
    def grad(self, of: Optional[str] = None, wrt: Optional[Sequence[str]] = None) -> Program:
        """The program that also gives the gradients of output `of` by the inputs `wrt`; its last input is the
        gradient of that output."""
    def with_gradient(self, of: str, gradient: Program) -> Program:
        """The program whose gradient of output `of` is the program `gradient`."""
    def with_outputs(self, *names: str) -> Program:
        """The program with these outputs alone; what they do not need is not computed."""
    def infer(self, *inputs: _Array, **named: _Array) -> tuple[Spec, ...]:
        """Shapes and element types of the outputs for such inputs, without compiling."""
    def compile(self, *inputs: _Array, **named: _Array) -> Executable:
        """The executable for inputs of such shapes, types and layouts."""
    def tune(self, *inputs: _Array, seconds: float = 1.0, **named: _Array) -> Executable:
        """Races schedules for such inputs; the winners are kept on disk."""
    def explain(self, *inputs: _Array, **named: _Array) -> Explanation:
        """What each kernel became for such inputs, and why."""
    def emit(self, stage: str, *inputs: _Array, **named: _Array) -> str:
        """The text of a stage: program, bound, reduced, kernels, schedule, nest, llvm or asm."""

class Executable:
    """A program compiled for inputs of one layout; called as the program is, with such inputs."""
    def __call__(self, *inputs: _Array, out: Any = None, stream: Optional[int] = None, **named: _Array) -> Any: ...
    @property
    def program(self) -> Program:
        """The program that was compiled."""
    @property
    def outputs(self) -> tuple[Spec, ...]:
        """Shapes and element types of the outputs."""
    @property
    def warnings(self) -> list[dict[str, Any]]:
        """What is valid for these shapes but surely not meant: a list of dicts."""
    def tune(self, seconds: float = 1.0) -> Executable:
        """Races schedules; the winners are kept on disk."""
    def explain(self) -> Explanation:
        """What each kernel became, and why."""
    def emit(self, stage: str) -> str:
        """The text of a stage: program, bound, reduced, kernels, schedule, nest, llvm or asm."""

class Unchecked:
    """A program called by what takes care of gradients itself."""
    def __init__(self, program: Program) -> None: ...
    def __call__(self, *inputs: _Array, out: Any = None, **named: _Array) -> Any: ...

class Eager:
    """A program called on PyTorch's tensors where neither its dispatcher nor its gradients have to see the call; gives
    NotImplemented where the dispatcher has to, None where gradients have to."""
    def __init__(self, program: Program, tensors: int, types: tuple[type, ...]) -> None: ...
    def __call__(self, *inputs: _Array, out: Any = None, **named: _Array) -> Any: ...
