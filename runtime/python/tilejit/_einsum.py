"""Contractions in one line: programs made from their text, kept by it."""
from __future__ import annotations

import functools
import re
from typing import Any, Optional

from ._core import Engine, Program
from ._support import text_argument


def _parsed(text: str, engine: Optional[Engine]) -> Program:
    from . import program
    return program(text, engine=engine)


def _index_names(letters: str) -> dict[str, str]:
    """A name for each letter, of which errors speak: indices are lower case, and the letters of one case may not meet the
    other's."""
    distinct = list(dict.fromkeys(letters))
    apart = len({letter.lower() for letter in distinct}) == len(distinct)
    return {letter: letter.lower() if apart else f"i{ord(letter):x}" for letter in distinct}


def _operand_terms(subscripts: str) -> tuple[list[str], str]:
    text = re.sub(r"\s", "", subscripts)
    if not re.fullmatch(r"[A-Za-z]*(,[A-Za-z]*)*(->[A-Za-z]*)?", text):
        raise ValueError(f"einsum: {subscripts!r} is not of the form 'ij,jk->ik' (no ellipsis)")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if not arrow:  # as NumPy has it: letters that occur once, in their order
        right = "".join(sorted(c for c in set(left) - {","} if left.count(c) == 1))
    for letter in right:
        if letter not in left:
            raise ValueError(f"einsum: the result's {letter!r} is in no operand")
    if len(set(right)) != len(right):
        raise ValueError(f"einsum: a letter is twice in the result {right!r}")
    return terms, right


def _einsum_text(subscripts: str) -> str:
    terms, right = _operand_terms(subscripts)
    index = _index_names("".join(terms))
    sizes = {letter: name.upper() if len(name) == 1 else f"N{name[1:]}" for letter, name in index.items()}
    names = [f"X{i}" for i in range(len(terms))]
    inputs = ", ".join(f"{n}[{', '.join(sizes[c] for c in t)}]" for n, t in zip(names, terms))
    factors = " * ".join(f"{n}[{', '.join(index[c] for c in t)}]" for n, t in zip(names, terms))
    out = ", ".join(index[c] for c in right)
    shape = ", ".join(sizes[c] for c in right)
    return f"function ({inputs}) -> (Result) {{ Result[{out}{': ' + shape if right else ''}] = +({factors}); }}"


@functools.lru_cache(maxsize=256)
def _einsum_program(subscripts: str, engine: Optional[Engine]) -> Program:
    return _parsed(_einsum_text(subscripts), engine)


def einsum(subscripts: str, *operands: Any, out: Any = None, engine: Optional[Engine] = None) -> Any:
    """A sum of products in Einstein's notation, as numpy.einsum has it, without an ellipsis.

    One program for all operands: sums of products of more than two are one contraction, not a chain of products.
    Errors call the operands X0, X1 …, and the size of an index i its capital letter, I."""
    text_argument(subscripts, "einsum: the first argument")
    program = _einsum_program(subscripts, engine)
    try:
        return program(*operands, out=out)
    except TypeError:
        count = len(program.inputs)
        if count == len(operands):
            raise
    raise TypeError(f"einsum: {subscripts!r} is of {count} operands, and {len(operands)} are given")


_ACCESS = re.compile(r"([A-Z]\w*)\s*\[([^\[\]]*)\]")


def _split(indices: str) -> list[str]:
    """At the commas outside of parentheses."""
    parts, depth = [""], 0
    for c in indices:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts] if indices.strip() else []


def _declaration(name: str, indices: list[str], size_of: dict[str, str]) -> str:
    dims = []
    for axis, index in enumerate(indices):
        size = size_of.get(index, f"N_{index}")
        plain = re.fullmatch(r"[a-z]\w*", index) and re.fullmatch(r"[A-Z]\w*", size)
        dims.append(size if plain else f"{name}_{axis}")
    return f"{name}[{', '.join(dims)}]"


def _contract_text(statement: str, names: tuple[str, ...]) -> str:
    result = _ACCESS.match(statement.strip())
    if not result:
        raise ValueError(f"contract: {statement!r} does not begin with the result, such as 'O[i, j: M, N] = …', "
                         "with an upper-case letter as names of tensors do")
    indices, _, sizes = result[2].partition(":")
    size_of = dict(zip(_split(indices), _split(sizes)))
    body = statement.strip()[result.end():].rstrip().rstrip(";")
    accesses = {name: _split(inside) for name, inside in reversed(_ACCESS.findall(body))}
    for name in names:
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sizes + body):
            raise TypeError(f"contract: the statement reads no {name}; it reads {', '.join(reversed(accesses)) or 'none'}")
    inputs = (_declaration(n, accesses[n], size_of) if n in accesses else n for n in names)
    return f"function ({', '.join(inputs)}) -> ({result[1]}) {{ {result[0]}{body}; }}"


@functools.lru_cache(maxsize=256)
def _contract_program(statement: str, names: tuple[str, ...], engine: Optional[Engine]) -> Program:
    return _parsed(_contract_text(statement, names), engine)


def contract(statement: str, *, out: Any = None, engine: Optional[Engine] = None, **operands: Any) -> Any:
    """One statement of the language Tile on named arrays: `contract("O[i, j: M, N] = +(A[i, k] * B[k, j])", A=a, B=b)`.

    Where an index stands alone in several places, the sizes there have to be the same. Size 0 of an array X is
    called X.0: `O[i: X.0 - 2] = +(X[i + k] * W[k])`. An array that the statement does not name is an error."""
    text_argument(statement, "contract: the statement")
    return _contract_program(statement, tuple(operands), engine)(*operands.values(), out=out)
