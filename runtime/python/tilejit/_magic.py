"""Cell magics of IPython and Jupyter: `%load_ext tilejit`, then a cell that begins with

    %%tile NAME [--language tile|mfg|lift]

is a program, bound to NAME in the notebook; without NAME it is the cell's value. `%%mfg` and `%%lift` are the same for
their languages. What is wrong in the text is shown with its line and a caret; lines are those of the cell."""
from __future__ import annotations

from typing import Any, Optional

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from . import Error, Program, program

_LANGUAGES = ("tile", "mfg", "lift")
_name = argument("name", nargs="?", help="the variable for the program; without it the program is the cell's value")


def _shown_alone(error: Error) -> Error:
    """The error, which a shell shows as its own text: the stack has nothing that the cell's author wrote."""
    error._render_traceback_ = lambda: str(error).splitlines()  # type: ignore[attr-defined]
    return error


@magics_class
class TileMagics(Magics):
    """The magics of one shell."""

    @magic_arguments()
    @_name
    @argument("--language", choices=_LANGUAGES, default="tile", help="the language of the cell (default: tile)")
    @cell_magic("tile")
    def tile(self, line: str, cell: str) -> Optional[Program]:
        """The cell's text as a program."""
        options = parse_argstring(self.tile, line)
        return self._made(options.name, options.language, cell)

    @magic_arguments()
    @_name
    @cell_magic("mfg")
    def mfg(self, line: str, cell: str) -> Optional[Program]:
        """The cell's text, in MFG, as a program."""
        return self._made(parse_argstring(self.mfg, line).name, "mfg", cell)

    @magic_arguments()
    @_name
    @cell_magic("lift")
    def lift(self, line: str, cell: str) -> Optional[Program]:
        """The cell's text, in Lift, as a program."""
        return self._made(parse_argstring(self.lift, line).name, "lift", cell)

    def _made(self, name: Optional[str], language: str, cell: str) -> Optional[Program]:
        if name is not None and not name.isidentifier():
            raise UsageError(f"{name!r} cannot be the name of a variable")
        try:
            # The magic's own line comes first, so that errors count lines as the notebook does.
            made = program("\n" + cell, language, name=f"{name or 'cell'}.{language}")
        except Error as error:
            raise _shown_alone(error) from None
        if name is None:
            return made
        self.shell.user_ns[name] = made
        return None


def load(shell: Any) -> None:
    """Gives the shell the magics."""
    shell.register_magics(TileMagics)


def unload(shell: Any) -> None:
    """Takes them away again."""
    for language in _LANGUAGES:
        shell.magics_manager.magics["cell"].pop(language, None)
