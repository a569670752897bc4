"""Sizes of outputs from sizes of inputs, as a program's signature states them; on integers and on symbols alike."""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence


def _select(condition: Any, then: Any, otherwise: Any) -> Any:
    return then if condition else otherwise


def _truncated(a: Any, b: Any) -> Any:
    return a // b if bool(a >= 0) == bool(b > 0) else -(-a // b)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "/": _truncated, "%": lambda a, b: a - _truncated(a, b) * b, "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b,
    "min": lambda a, b: _select(a < b, a, b), "max": lambda a, b: _select(a > b, a, b), "<": lambda a, b: int(a < b),
    "==": lambda a, b: int(a == b), "?:": _select,
}


def evaluate(size: Any, names: dict[str, Any]) -> Any:
    """The value of a size expression; KeyError for a name that `names` lacks."""
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return names[size]
    operation, *arguments = size
    values = [evaluate(a, names) for a in arguments]
    if operation == "+":
        return sum(values[1:], values[0])
    if operation == "*":
        product = values[0]
        for value in values[1:]:
            product = product * value
        return product
    if operation == "-":
        return -values[0] if len(values) == 1 else values[0] - values[1]
    return _OPERATIONS[operation](*values)


def names_of(signature: dict[str, Any], shapes: Sequence[Optional[Sequence[Any]]],
             same: Callable[[Any, Any, str], None]) -> dict[str, Any]:
    """The dimensions of the inputs by name; `same` is told of two sizes that one name has."""
    names: dict[str, Any] = {}
    for declared, shape in zip(signature["inputs"], shapes):
        if shape is None:
            continue
        dims = declared["dims"] or [f"{declared['name']}.{axis}" for axis in range(len(shape))]
        for dim, size in zip(dims, shape):
            if isinstance(dim, str) and dim in names:
                same(names[dim], size, dim)
            elif isinstance(dim, str):
                names[dim] = size
            elif isinstance(dim, int):
                same(size, dim, declared["name"])
    return names
