"""The exceptions. `_core` makes them from the errors of the C interface."""
from __future__ import annotations


class Error(Exception):
    """An error of Tile JIT; `str(error)` is the text for people, with the source line and a caret.

    `stage` is "parse", "bind", "compile", "run" or "api"; `code` a stable word such as "syntax", "rank" or "limit";
    `line` and `column` count from 1 and are 0 where the error has no place in a program; `json` is all of it as one
    JSON object.
    """

    stage = "api"

    def __init__(self, message: str, code: str = "argument", line: int = 0, column: int = 0, rendered: str = "",
                 json: str = "{}"):
        super().__init__(message, code, line, column, rendered, json)
        self.message, self.code, self.line, self.column = message, code, line, column
        self.rendered = rendered or f"error [{code}]: {message}"
        self.json = json

    def __str__(self) -> str:
        return self.rendered.rstrip("\n")


class ParseError(Error):
    """The text alone is wrong."""
    stage = "parse"


class BindError(Error):
    """Shapes, element types or sizes do not fit the program."""
    stage = "bind"


class CompileError(Error):
    """A limit, cells assigned twice, or a failure of a backend."""
    stage = "compile"


class RunError(Error):
    """Execution failed."""
    stage = "run"


class ArgumentError(Error, ValueError):
    """A call's own arguments: a name that does not exist, an array that cannot be taken."""


_OF_STAGE = (ParseError, BindError, CompileError, RunError, ArgumentError)


def make(stage: int, code: str, message: str, line: int, column: int, rendered: str, json: str) -> Error:
    return _OF_STAGE[stage](message, code, line, column, rendered, json)


def argument(message: str) -> Error:
    return ArgumentError(message)
