"""The parts of `_core` that are easier said in Python: none is on the way of a call that has been made before."""
from __future__ import annotations

import dataclasses
import html
import logging
import operator
import os
import re
import sys
from typing import Any

from ._errors import ArgumentError

# Without a handler of its own Python prints warnings, and nothing below them, to standard error.
logger = logging.getLogger("tilejit")

_NUMPY = {"f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool", "i8": "int8", "i16": "int16",
          "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}
# NumPy has these by the package ml_dtypes; PyTorch and JAX call them the same.
_EXTENSIONS = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
_NAMED = {name: ours for ours, name in _EXTENSIONS.items()}


def log(level: int, message: str) -> None:
    logger.log(level, "%s", message)


@dataclasses.dataclass(frozen=True)
class Spec:
    """Shape and element type of an array that need not exist: "bool", "i8" to "i64", "u8" to "u64", "f8e4m3", "f8e5m2",
    "f16", "bf16", "f32" or "f64"; NumPy's names of them are taken, too."""

    shape: tuple[int, ...]
    dtype: str


def _kind(value: Any) -> str:
    return f"the text {value!r}" if isinstance(value, str) else f"a {type(value).__name__}"


def text_argument(value: Any, what: str) -> str:
    """The text that an argument has to be; `what` says of what, for the error."""
    if isinstance(value, str):
        return value
    raise TypeError(f"{what} is {_kind(value)}: expected text")


def names_argument(value: Any, what: str) -> list[str]:
    """The list of names that an argument has to be."""
    if isinstance(value, str):
        raise TypeError(f"{what} is {_kind(value)}: expected a list of names, such as [{value!r}]")
    try:
        names = list(value)
    except TypeError:
        raise TypeError(f"{what} is {_kind(value)}: expected a list of names") from None
    return [text_argument(name, f"{what}, entry {i},") for i, name in enumerate(names)]


def number_argument(value: Any, what: str) -> float:
    """The number that an argument has to be."""
    if isinstance(value, str) or not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise TypeError(f"{what} is {_kind(value)}: expected a number")
    return float(value)


def engine_options(backend="cpu", *, threads=0, cache_dir=None, cache_mode=None, cache_limit=0, memory_cache_limit=0,
                   memory_limit=0, features=None, precision=None, deterministic=False, limit_compile_ms=0,
                   device_memory=None):
    """What Engine() is given, each of the type that the library takes."""
    def text(value, what):
        return value if value is None else text_argument(value, what)

    def whole(value, what, most=(1 << 64) - 1):
        if not hasattr(value, "__index__"):
            raise TypeError(f"{what} is {_kind(value)}: expected a whole number")
        number = operator.index(value)
        if not -most <= number <= most or number < 0 and what != "threads":
            raise ArgumentError(f"{what} is {number}: expected a whole number from 0 to {most}")
        return number

    if not isinstance(deterministic, (bool, int)):
        raise TypeError(f"deterministic is {_kind(deterministic)}: expected True or False")
    return (text_argument(backend, "backend"), whole(threads, "threads", (1 << 31) - 1),
            text(os.fspath(cache_dir) if hasattr(cache_dir, "__fspath__") else cache_dir, "cache_dir"),
            text(cache_mode, "cache_mode"), whole(cache_limit, "cache_limit"),
            whole(memory_cache_limit, "memory_cache_limit"), whole(memory_limit, "memory_limit"),
            text(features, "features"), text(precision, "precision"), bool(deterministic),
            whole(limit_compile_ms, "limit_compile_ms"), device_memory)


engine_options.__qualname__ = "Engine"  # what Python calls it where an argument has no such name


def program_argument(value: Any, what: str) -> Any:
    """The program that an argument has to be."""
    from . import Program
    if isinstance(value, Program):
        return value
    raise TypeError(f"{what} is {_kind(value)}: expected a tilejit.Program")


_FILE_NAME = re.compile(r"[^\s(){};]+\.(tile|mfg|lift)")


def program_text(text: Any, language: Any) -> str:
    """The text of a program; what is the name of its file is refused."""
    how = "program() takes the text of a program, not a file: program(pathlib.Path({!r}).read_text(){})"
    if isinstance(text, os.PathLike):
        suffix = os.path.splitext(os.fspath(text))[1][1:]
        raise TypeError(how.format(os.fspath(text), f", {suffix!r}" if suffix in ("mfg", "lift") else ""))
    text_argument(text, "the program")
    text_argument(language, "the language")
    file = _FILE_NAME.fullmatch(text.strip())
    if file:
        raise TypeError(how.format(text.strip(), "" if file[1] == "tile" else f", {file[1]!r}"))
    return text


class Explanation(str):
    """What each kernel became and why; notebooks show it as preformatted text."""

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


def numpy_dtype(name: str) -> Any:
    import numpy
    if name not in _EXTENSIONS:
        return numpy.dtype(_NUMPY[name])
    try:
        import ml_dtypes
    except ImportError as error:
        raise TypeError(f"the result holds {name}, which NumPy has with the package ml_dtypes alone") from error
    return numpy.dtype(getattr(ml_dtypes, _EXTENSIONS[name]))


def _plain(array: Any, what: str) -> tuple[Any, str]:
    name = str(getattr(array, "dtype", type(array).__name__))
    if name in _NAMED and hasattr(array, "view") and type(array).__module__ == "numpy":
        return array.view("uint16" if name == "bfloat16" else "uint8"), _NAMED[name]
    if hasattr(array, "dtype"):
        raise TypeError(f"{what} is a {type(array).__name__} of {name} that gives its elements neither by DLPack nor by "
                        "the buffer protocol, or whose strides are no multiples of an element: astype(\"float32\") makes one "
                        "that does")
    how = ": numpy.array(…, numpy.float32) makes one" if isinstance(array, (list, tuple)) else ""
    raise TypeError(f"{what} is a {type(array).__name__}: expected an array (DLPack or buffer protocol) or a number{how}")


def as_plain_array(array: Any, what: str) -> tuple[Any, str]:
    return _plain(array, what)


def as_writable_array(array: Any, what: str) -> tuple[Any, str]:
    flags = getattr(array, "flags", None)
    if getattr(flags, "writeable", True) is False or getattr(array, "readonly", False) is True:
        raise ValueError(f"{what} is read-only")
    return _plain(array, what)


def load_nvrtc() -> None:
    """Loads the compiler of CUDA that NVIDIA's wheels have put beside this package, with PyTorch for one, so that the library
    finds it by its name: it looks in the system's places alone. TILE_NVRTC names another."""
    if os.environ.get("TILE_NVRTC"):
        return
    import ctypes
    import glob
    for folder in sys.path:
        for wheel in ("cu13", "cuda_nvrtc"):
            for path in sorted(glob.glob(os.path.join(glob.escape(folder), "nvidia", wheel, "lib", "libnvrtc.so.1[23]"))):
                try:
                    ctypes.CDLL(path)
                    return
                except OSError:  # of another system
                    pass


def torch_empty(shape: tuple[int, ...], name: str, like: Any) -> Any:
    import torch
    return torch.empty(shape, dtype=getattr(torch, _EXTENSIONS.get(name) or _NUMPY[name]), device=like.device)


def torch_written(tensor: Any) -> None:
    if tensor.is_inference():
        return
    global _increment_version
    if _increment_version is None:
        import torch
        _increment_version = torch._C._increment_version
    try:
        _increment_version((tensor,))
    except TypeError:  # PyTorch before 2.5 takes one tensor
        _increment_version(tensor)


_increment_version: Any = None


def from_dlpack(array: Any, like: Any) -> Any:
    if type(like).__module__.startswith("jax"):
        import jax
        return jax.dlpack.from_dlpack(array)
    return like.__array_namespace__().from_dlpack(array)


def reduce_program(text: str, language: str, name: str, backend: str, constants: dict[str, Any],
                   own_gradient: bool) -> Any:
    if own_gradient:
        raise TypeError("a program with a gradient of its own cannot be pickled")
    return _rebuild, (text, language, name, backend, constants)


def _rebuild(text: str, language: str, name: str, backend: str, constants: dict[str, Any]) -> Any:
    from . import Engine, default_engine, program
    engine = default_engine()
    made = program(text, language, name=name, engine=engine if engine.backend == backend else Engine(backend))
    return made.bind(**constants) if constants else made


def represent(inputs: tuple[str, ...], outputs: tuple[str, ...], language: str, name: str) -> str:
    return f"<tilejit.Program {name} ({language}): ({', '.join(inputs)}) -> ({', '.join(outputs)})>"
