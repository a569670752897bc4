"""Pygments lexers for the languages of Tile JIT: an Error token is what the language's own lexer refuses."""
from pygments.lexer import RegexLexer, bygroups
from pygments.token import (Comment, Keyword, Name, Number, Operator, Punctuation, String, Text)

__all__ = ["TileLexer", "MfgLexer", "LiftLexer"]

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
C_COMMENTS = [(r"//[^\n]*", Comment.Single), (r"/\*(?:.|\n)*?\*/", Comment.Multiline)]


class TileLexer(RegexLexer):
    name = "Tile"
    aliases = ["tile"]
    filenames = ["*.tile"]
    tokens = {
        "root": [
            (r"\s+", Text.Whitespace),
            *C_COMMENTS,
            (r"(?:function|default|no_defract)\b(?!')", Keyword),
            (r"(?:let|in)\b(?!')", Keyword.Pseudo),
            (r"[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)(?![A-Za-z0-9_.'])", Number.Float),
            (r"[0-9]+(?![A-Za-z0-9_.'])", Number.Integer),
            (r"([A-Z][A-Za-z0-9_]*'?)(\.)([0-9]+)(?![A-Za-z0-9_.])", bygroups(Name.Class, Punctuation, Number.Integer)),
            (r"[A-Z][A-Za-z0-9_]*'?", Name.Class),
            (r"[a-z][A-Za-z0-9_]*'?(?=\s*\()", Name.Function),
            (r"[a-z][A-Za-z0-9_]*'?", Name.Variable),
            (r"->|==|!=|<=|>=|<<|>>|&&|\|\||[=+\-*/%<>&|^~!?]", Operator),
            (r"[()\[\]{},;:]", Punctuation),
        ]
    }


class MfgLexer(RegexLexer):
    name = "MFG"
    aliases = ["mfg"]
    filenames = ["*.mfg"]
    tokens = {
        "root": [
            (r"\s+", Text.Whitespace),
            (r"#[^\n]*", Comment.Single),
            (r"\\(?=[ \t\r]*\n)", Text),
            (r'"[^"\n]*"', String),
            (rf"(@)({NAME})", bygroups(Punctuation, Name.Decorator)),
            (rf"(def|fn)(\s+)({NAME})", bygroups(Keyword.Declaration, Text.Whitespace, Name.Function)),
            (r"mut!(?!=)|(?:let|def|fn|by)\b", Keyword.Declaration),
            (r"(?:bool|[iu](?:8|16|32)|f32)(?:v[0-9]+)?\b", Keyword.Type),
            (r"(\.)([0-9]+)(?![A-Za-z0-9_])", bygroups(Punctuation, Number.Integer)),
            (r"0[xX][0-9a-fA-F]+u?(?![A-Za-z0-9_])", Number.Hex),
            (r"[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)(?![A-Za-z0-9_])", Number.Float),
            (r"[0-9]+u?(?![A-Za-z0-9_])", Number.Integer),
            (rf"{NAME}(?=\s*[(<])", Name.Function),
            (NAME, Name.Variable),
            (r"\.\.\.|\.\.<|\|>|\|\||&&|==|!=|<=|>=|<<|>>|\+=|[=+\-*/%^<>&|!]", Operator),
            (r"[()\[\]{},:.@]", Punctuation),
        ]
    }


class LiftLexer(RegexLexer):
    name = "Lift"
    aliases = ["lift"]
    filenames = ["*.lift"]
    tokens = {
        "root": [
            (r"\s+", Text.Whitespace),
            *C_COMMENTS,
            (rf"(val)(\s+)({NAME})", bygroups(Keyword.Declaration, Text.Whitespace, Name.Function)),
            (r"(?:val|fun)\b", Keyword.Declaration),
            (r"(?:Float|Int|ArrayType|TupleType|VectorType)\b", Keyword.Type),
            (r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?(?![A-Za-z0-9_])", Number.Float),
            (r"[0-9]+(?:[eE][+-]?[0-9]+[fF]?|[fF])(?![A-Za-z0-9_])", Number.Float),
            (r"[0-9]+(?![A-Za-z0-9_])", Number.Integer),
            (r"o\b", Operator.Word),
            (rf"{NAME}(?=\s*\()", Name.Function),
            (NAME, Name.Variable),
            (r"=>|==|!=|<=|>=|&&|\|\||[=$+\-*/%<>!?:]", Operator),
            (r"[(),;]", Punctuation),
        ]
    }
