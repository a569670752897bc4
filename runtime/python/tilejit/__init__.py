"""Tile JIT: tensor programs from text, compiled while Python runs, with gradients.

    import tilejit as tile
    mm = tile.program("function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }")
    c = mm(a, b)                     # NumPy, PyTorch, JAX: the result is of the caller's kind
    print(mm.grad("O", ["A", "B"]).text)
"""
from __future__ import annotations

import os
import threading
from typing import Any, Optional

from ._core import Engine, Executable, Program
from ._errors import ArgumentError, BindError, CompileError, Error, ParseError, RunError
from ._einsum import contract, einsum
from ._support import Explanation, Spec, program_text, text_argument

__version__ = "0.2.0"
__all__ = ["ArgumentError", "BindError", "CompileError", "Engine", "Error", "Executable", "Explanation", "ParseError",
           "Program", "RunError", "Spec", "contract", "default_engine", "einsum", "program"]

_default: Optional[Engine] = None
_lock = threading.Lock()
os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))


def default_engine() -> Engine:
    """The engine of programs that name none: all processors of this machine, made at the first use."""
    global _default
    if _default is None:
        with _lock:
            if _default is None:
                _default = Engine("cpu")
    return _default


def program(text: str, language: str = "tile", *, name: str = "<text>", engine: Optional[Engine] = None) -> Program:
    """Parses a program; `language` is "tile", "mfg" or "lift", `name` what errors call the text.

    Raises ParseError where the text is wrong, TypeError where it is the name of a file."""
    if engine is not None and not isinstance(engine, Engine):
        raise TypeError(f"the engine is a {type(engine).__name__}: expected a tilejit.Engine")
    text_argument(name, "the name")
    return Program(default_engine() if engine is None else engine, program_text(text, language), language, name)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext tilejit` calls: the cell magics %%tile, %%mfg and %%lift."""
    from . import _magic
    _magic.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext tilejit` calls."""
    from . import _magic
    _magic.unload(shell)


def __getattr__(name: str) -> Any:
    if name in ("torch", "jax"):  # they import the packages that they are for
        import importlib
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
