#!/usr/bin/env python3
"""Random MFG programs with their values, computed here from the specification alone: an oracle for the front end.

Usage: mfg_oracle.py COUNT SEED > cases.json; then `tile conform cases.json --backend reference`.

A program is a tensor of a few pixels whose block is a random typed expression: the generator makes text and value
together, and leaves out every bracket that precedence makes needless."""
import json
import math
import random
import struct
import sys

INTEGERS = {"i8": (8, True), "i16": (16, True), "i32": (32, True), "u8": (8, False), "u16": (16, False), "u32": (32, False)}
WIDTH, HEIGHT = 3, 2
WEIGHTS = [[1, 2, 1], [2, 3, 2], [-1, 7, 5]]


def f32(value):
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def wrap(value, kind):
    bits, signed = INTEGERS[kind]
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def limits(kind):
    bits, signed = INTEGERS[kind]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def cast(value, source, target):
    """f32 to an integer truncates, saturates, NaN gives 0; u8 and u16 from wider integers saturate; else wrap."""
    if source == target:
        return value
    if target == "f32":
        return f32(value)
    low, high = limits(target)
    if source == "f32":
        if math.isnan(value):
            return 0
        return high if value >= high else low if value <= low else math.trunc(value)
    wider = INTEGERS[source][0] > INTEGERS[target][0]
    if target in ("u8", "u16") and wider:
        return max(low, min(high, value))
    return wrap(value, target)


def arithmetic(kind):
    return "i32" if kind in ("i8", "i16", "u8", "u16") else kind


def promoted(a, b):
    a, b = arithmetic(a), arithmetic(b)
    return "f32" if "f32" in (a, b) else "u32" if "u32" in (a, b) else "i32"


def fmod(a, b):
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    return a if math.isinf(b) else math.fmod(a, b)


def divide(a, b):
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if b == 0:
        return math.nan if a == 0 else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def binary(op, a, b, ka, kb):
    """The value and type of a scalar operator."""
    kind = promoted(ka, kb)
    a, b = (f32(a), f32(b)) if kind == "f32" else (wrap(a, kind), wrap(b, kind))
    if op in ("&&", "||"):
        return int(bool(a) and bool(b) if op == "&&" else bool(a) or bool(b)), "i32"
    if op in ("==", "!=", "<", "<=", ">", ">="):
        return int({"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]), "i32"
    if kind == "f32":
        value = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: divide(a, b), "%": lambda: fmod(a, b)}[op]()
        return f32(value), kind
    if op in ("/", "%"):
        if b == 0:
            return 0, kind
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return wrap(quotient if op == "/" else a - quotient * b, kind), kind
    if op in ("<<", ">>"):
        if b < 0 or b > 31:
            return (-1 if a < 0 else 0) if op == ">>" else 0, kind
        return wrap(a << b if op == "<<" else a >> b, kind), kind
    if op == "^":
        return (0 if b < 0 else wrap(pow(a, b, 1 << 32), kind)), kind
    return wrap({"+": a + b, "-": a - b, "*": a * b, "|": a | b, "&": a & b}[op], kind), kind


class Expression:
    """Text of a precedence (1 to 8 binary, 9 unary, 10 power, 11 primary; 0 swallows what follows), the types of its
    components (a list, or one name for a scalar), and its value in an environment."""

    def __init__(self, text, precedence, kind, value):
        self.text, self.precedence, self.kind, self.value = text, precedence, kind, value

    def at(self, least):
        return self.text if self.precedence >= least else "(" + self.text + ")"

    @property
    def kinds(self):
        return self.kind if isinstance(self.kind, list) else [self.kind]


LEVEL = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "|": 4, "&": 5, ">>": 6, "<<": 6, "+": 7, "-": 7, "*": 8, "/": 8, "%": 8}


def components(e, value):
    return value if isinstance(e.kind, list) else [value]


def combine(op, a, b):
    size = max(len(a.kinds), len(b.kinds))
    tuple_result = isinstance(a.kind, list) or isinstance(b.kind, list)
    spread = lambda items: items if len(items) == size else items * size
    kinds = [binary(op, 1, 1, ka, kb)[1] for ka, kb in zip(spread(a.kinds), spread(b.kinds))]

    def value(env):
        parts = [binary(op, x, y, kx, ky)[0] for x, y, kx, ky in
                 zip(spread(components(a, a.value(env))), spread(components(b, b.value(env))), spread(a.kinds), spread(b.kinds))]
        return parts if tuple_result else parts[0]

    if op == "^":
        return Expression(a.at(11) + "^" + b.at(9), 10, kinds if tuple_result else kinds[0], value)
    level = LEVEL[op]
    return Expression(f"{a.at(level)} {op} {b.at(level + 1)}", level, kinds if tuple_result else kinds[0], value)


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = []  # scopes: lists of (name, kind)
        self.fresh = 0
        self.piping = 0  # arguments of calls on the right of |>

    def pick(self, *items):
        return self.random.choice(items)

    def name(self, prefix="v"):
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    # Scalars of a given type.
    def scalar(self, kind, depth):
        if depth <= 0:
            return self.leaf(kind)
        makers = {"i32": self.integer, "u32": self.unsigned, "f32": self.real}
        return makers[kind](depth) if kind in makers else self.narrow(kind, depth)

    def leaf(self, kind):
        known = [n for scope in self.names for n in scope if n[1] == kind]
        if known and self.random.random() < 0.6:
            name = self.random.choice(known)[0]
            return Expression(name, 11, kind, lambda env: env[name])
        if kind == "f32":
            number = f32(self.random.randint(-64, 64) / 8)
            return self.literal(number, repr(abs(number)), kind)
        if kind == "u32":
            number = self.pick(self.random.randint(0, 20), 0xffffffff, 0x80000000)
            return self.literal(number, self.pick(f"{number}u", f"{number:#x}u"), kind)
        if kind == "i32":
            number = self.pick(self.random.randint(-9, 20), self.random.randint(-9, 20), 0x7fffffff, 255)
            return self.literal(number, str(abs(number)), kind)
        return self.narrow(kind, 0)

    @staticmethod
    def literal(number, text, kind):
        negative = number < 0 or (kind == "f32" and math.copysign(1, number) < 0)
        return Expression("-" + text if negative else text, 9 if negative else 11, kind, lambda env: number)

    def narrow(self, kind, depth):
        source = self.scalar(self.pick("i32", "u32", "f32"), depth - 1)
        return self.cast_of(source, kind)

    def cast_of(self, source, kind):
        return Expression(f"{kind}({source.text})", 11, kind, lambda env: cast(source.value(env), source.kind, kind))

    def integer(self, depth):
        choice = self.random.randrange(16)
        small = self.scalar(self.pick("i32", "i32", "u8", "i8", "i16", "u16"), depth - 1)
        if choice < 5:
            return self.signed_result(combine(self.pick("+", "-", "*", "/", "%", "|", "&"), small, self.scalar("i32", depth - 1)))
        if choice == 5:
            return self.signed_result(combine(self.pick("<<", ">>"), small, self.scalar(self.pick("i32", "u8"), depth - 2)))
        if choice == 6:
            return self.compare(depth)
        if choice == 7:
            return combine(self.pick("&&", "||"), self.scalar("i32", depth - 1), self.scalar("i32", depth - 1))
        if choice == 8:
            a = self.scalar("i32", depth - 1)
            return Expression("!" + a.at(9), 9, "i32", lambda env: int(a.value(env) == 0))
        if choice == 9:
            a = self.scalar(self.pick("i32", "u8", "i16"), depth - 1)
            return Expression("-" + a.at(9) if not a.at(9).startswith("-") else f"-({a.text})", 9, "i32", lambda env: wrap(-a.value(env), "i32"))
        if choice == 10:
            return self.cast_of(self.scalar(self.pick("u32", "f32", "u8"), depth - 1), "i32")
        if choice == 11:
            base = self.scalar("i32", depth - 2)
            return combine("^", base, self.literal(*[(n, str(abs(n)), "i32") for n in [self.random.randint(-1, 5)]][0]))
        if choice == 12:
            return self.loop(depth)
        if choice == 13:
            return self.read(depth)
        if choice == 14:
            return self.extremum(depth)
        return self.select("i32", depth)

    def extremum(self, depth):
        name, function = self.pick(("min", min), ("max", max))
        parts = [self.scalar(self.pick("i32", "u8", "i16"), depth - 2) for _ in range(self.random.randint(1, 4))]
        text = ", ".join(e.text for e in parts)
        if self.random.random() < 0.3:
            text = f"*[{text}]"
        return Expression(f"{name}({text})", 11, "i32", lambda env: function(e.value(env) for e in parts))

    def signed_result(self, e):
        return e if e.kind == "i32" else self.cast_of(e, "i32")

    def compare(self, depth):
        kind = self.pick("i32", "u32", "f32", "u8")
        return combine(self.pick("==", "!=", "<", "<=", ">", ">="), self.scalar(kind, depth - 1), self.scalar(self.pick(kind, "i32"), depth - 1))

    def unsigned(self, depth):
        choice = self.random.randrange(6)
        if choice < 3:
            return combine(self.pick("+", "-", "*", "/", "%", "|", "&", "<<", ">>"), self.scalar("u32", depth - 1), self.scalar(self.pick("u32", "i32", "u8"), depth - 1))
        if choice == 3:
            return self.cast_of(self.scalar(self.pick("i32", "f32", "i8"), depth - 1), "u32")
        if choice == 4:
            a, b = self.scalar("u32", depth - 1), self.scalar("i32", depth - 1)
            return Expression(f"xor({a.text}, {b.text})", 11, "u32", lambda env: wrap(a.value(env) ^ wrap(b.value(env), "u32"), "u32"))
        return self.select("u32", depth)

    def real(self, depth):
        choice = self.random.randrange(9)
        if choice < 4:
            return combine(self.pick("+", "-", "*", "/", "%"), self.scalar("f32", depth - 1), self.scalar(self.pick("f32", "f32", "i32", "u8"), depth - 1))
        if choice == 4:
            return self.cast_of(self.scalar(self.pick("i32", "u32", "u16"), depth - 1), "f32")
        if choice == 5:
            name, function = self.pick(("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc), ("round", round), ("abs", abs))
            a = self.scalar("f32", depth - 1)
            keep = lambda v: v if math.isinf(v) or math.isnan(v) else float(function(v))
            return Expression(f"{name}({a.text})", 11, "f32", lambda env: abs(a.value(env)) if name == "abs" else keep(a.value(env)))
        if choice == 6:
            a = self.scalar("f32", depth - 1)
            root = lambda v: math.nan if math.isnan(v) or v < 0 else f32(math.sqrt(v)) if not math.isinf(v) else v
            return Expression(f"sqrt({a.text})", 11, "f32", lambda env: root(a.value(env)))
        if choice == 7:
            a = self.scalar("f32", depth - 1)
            return Expression("-" + a.at(9) if not a.at(9).startswith("-") else f"-({a.text})", 9, "f32", lambda env: -a.value(env))
        return self.select("f32", depth)

    # ifel, as a chain with `...` or nested; extrema; pipes.
    def select(self, kind, depth):
        arms = self.random.randint(1, 3)
        style = self.random.randrange(3)
        if style == 0 and self.piping > 0:  # there `...` may mean the piped value
            style = 1
        self.piping += style == 2
        conditions = [self.scalar(self.pick("i32", "i32", "u32"), depth - 2) for _ in range(arms)]
        values = [self.scalar(kind, depth - 2) for _ in range(arms + 1)]

        def value(env):
            for condition, arm in zip(conditions, values):
                if condition.value(env) != 0:
                    return arm.value(env)
            return values[-1].value(env)

        words = [self.pick("ifel", "elif") for _ in range(arms)]
        self.piping -= style == 2
        if style == 0:
            text = "".join(f"{w}({c.text}, {v.text}, ...){self.pick(' ', chr(10))}" for w, c, v in zip(words, conditions, values))
            return Expression(text + self.pick(f"else({values[-1].text})", values[-1].text), 0, kind, value)
        if style == 1:
            text = values[-1].text
            for w, c, v in reversed(list(zip(words, conditions, values))):
                text = f"{w}({c.text}, {v.text}, {text})"
            return Expression(text, 11, kind, value)
        text = values[-1].at(3)
        for w, c, v in reversed(list(zip(words, conditions, values))):
            text = f"{text} |> {w}({c.text}, {v.text}, ...)"
        return Expression(text, 3, kind, value)

    def loop(self, depth):
        low, count = self.random.randint(-3, 3), self.pick(0, 1, 3, 5, 40)
        high = Expression(str(low + count), 9 if low + count < 0 else 11, "i32", lambda env: low + count)
        if self.random.random() < 0.4:
            shift = self.leaf("i32")
            bounded = combine("&", shift, self.literal(3, "3", "i32"))
            high = combine("+", high, Expression(bounded.at(8), 11 if bounded.precedence == 11 else 0, "i32", bounded.value))
        second = self.random.random() < 0.3
        count2 = self.random.randint(0, 3)
        i, j, a = self.name("i"), self.name("j"), self.name("a")
        ordered = self.random.random() < 0.5
        self.names.append([(i, "i32")] + ([(j, "i32")] if second else []) + ([(a, "i32")] if ordered else []))
        lines, block = self.block("i32", min(depth - 2, 2))
        self.names.pop()
        init = self.leaf("i32")
        ranges = f"{low}..<{high.text}" + (f", 0..<{count2}" if second else "")
        names = ", ".join([i] + ([j] if second else []) + ([a] if ordered else []))
        body = f"{{ {lines}{block.text}\n}}" if lines or "\n" in block.text else f"{{ {block.text} }}"

        def value(env):
            state = init.value(env) if ordered else 0
            for y in range(count2 if second else 1):
                for x in range(low, high.value(env)):
                    inner = dict(env, **{i: x, j: y, a: state})
                    state = block.value(inner) if ordered else wrap(state + block.value(inner), "i32")
            return state

        if ordered:
            arguments = self.pick(f"init={init.text}, {ranges}", f"{ranges}, init={init.text}")
            return Expression(f"reduce({arguments}) |{names}| {body}", 11, "i32", value)
        return Expression(f"rsum({ranges}) |{names}| {body}", 11, "i32", value)

    def read(self, depth):
        x, y = self.scalar("i32", depth - 2), self.scalar(self.pick("i32", "i8"), depth - 2)
        clamp = lambda v, high: max(0, min(high, v))
        if self.random.random() < 0.5:
            return Expression(f"w({x.text}, {y.text})", 11, "i32", lambda env: WEIGHTS[clamp(y.value(env), 2)][clamp(x.value(env), 2)])
        return Expression(f"border({x.text}, {y.text})", 11, "i32",
                          lambda env: WEIGHTS[y.value(env)][x.value(env)] if 0 <= x.value(env) < 3 and 0 <= y.value(env) < 3 else -77)

    # Tuples.
    def tuple(self, kinds, depth):
        choice = self.random.randrange(5) if depth > 0 else 0
        if choice == 1 and len(set(kinds)) == 1 and kinds[0] in ("i32", "u32", "f32"):
            other = self.pick(self.tuple(kinds, depth - 1), self.scalar(kinds[0], depth - 1))
            return combine(self.pick("+", "-", "*"), self.tuple(kinds, depth - 1), other)
        if choice == 2:
            condition = self.tuple(["i32"] * len(kinds), depth - 1) if self.random.random() < 0.5 else self.scalar("i32", depth - 1)
            yes, no = self.tuple(kinds, depth - 1), self.tuple(kinds, depth - 1)

            def value(env):
                test = condition.value(env)
                test = test if isinstance(condition.kind, list) else [test] * len(kinds)
                return [y if t != 0 else n for t, y, n in zip(test, yes.value(env), no.value(env))]

            return Expression(f"ifel({condition.text}, {yes.text}, {no.text})", 11, list(kinds), value)
        if choice == 3:
            source = self.tuple([self.pick("i32", "f32", "u32", "u8") for _ in kinds], depth - 1)
            if len(set(kinds)) == 1:
                return Expression(f"{kinds[0]}({source.text})", 11, list(kinds),
                                  lambda env: [cast(v, k, kinds[0]) for v, k in zip(source.value(env), source.kind)])
        if choice == 4 and len(kinds) <= 4:
            order = [self.random.randrange(4) for _ in kinds]
            source_kinds = [self.pick("i32", "f32", "u32") for _ in range(4)]
            for at, kind in zip(order, kinds):
                source_kinds[at] = kind
            if all(source_kinds[at] == kind for at, kind in zip(order, kinds)) and len(kinds) > 1:
                source = self.tuple(source_kinds, depth - 1)
                swizzle = "".join("xyzw"[at] for at in order)
                return Expression(f"{source.at(11)}.{swizzle}", 11, list(kinds), lambda env: [source.value(env)[at] for at in order])
        return self.tuple_literal(kinds, depth)

    def tuple_literal(self, kinds, depth):
        if len(kinds) > 2 and depth > 0 and self.random.random() < 0.3:
            head = self.tuple(kinds[:2], depth - 1)
            rest = [self.scalar(kind, depth - 1) for kind in kinds[2:]]
            text = "[" + ", ".join([f"*{head.text}"] + [e.text for e in rest]) + "]"
            return Expression(text, 11, list(kinds), lambda env: list(head.value(env)) + [e.value(env) for e in rest])
        parts = [self.scalar(kind, depth - 1) for kind in kinds]
        return Expression("[" + ", ".join(e.text for e in parts) + "]", 11, list(kinds), lambda env: [e.value(env) for e in parts])

    # Lets, then an expression.
    def block(self, kind, depth):
        lines, steps = "", []
        self.names.append([])
        for _ in range(self.random.randint(0, 2)):
            name, own = self.name(), self.pick("i32", "f32", "u32", "u8", "i32")
            e = self.scalar(own, depth - 1)
            lines += f"let {name} = {e.text}\n"
            steps.append((name, e))
            self.names[-1].append((name, own))
        result = self.tuple(kind, depth) if isinstance(kind, list) else self.scalar(kind, depth)
        self.names.pop()

        def value(env):
            inner = dict(env)
            for name, e in steps:
                inner[name] = e.value(inner)
            return result.value(inner)

        return lines, Expression(result.text, result.precedence, result.kind, value)


def number(value, kind):
    if kind != "f32":
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf") if math.isinf(value) else value


def case(seed):
    g = Generator(seed)
    kind = g.pick("i32", "f32", "u32", "u8", "i16", ["i32", "i32", "i32"], ["u8"] * 4, ["i32", "f32"], ["u32", "f32", "i8"])
    g.names.append([("x", "i32"), ("y", "i32"), ("p", "i32"), ("q", "u8")])
    lines, result = g.block(kind, g.random.randint(2, 5))
    rows = ", ".join(str(row) for row in WEIGHTS)
    program = (f"def w by [{rows}]\nlet border = sampler<w>(address=.ClampToBorderValue, border_value=-77)\n"
               f"@bounds({WIDTH}, {HEIGHT})\ndef t |x, y| {{\nlet p = input_p_i32(x, y)\nlet q = input_q_u8(x, y)\n{lines}{result.text}\n}}\n")
    p = [g.pick(g.random.randint(-100, 100), g.random.randint(-2**31, 2**31 - 1)) for _ in range(WIDTH * HEIGHT)]
    q = [g.random.randint(0, 255) for _ in range(WIDTH * HEIGHT)]
    values = [result.value({"x": i % WIDTH, "y": i // WIDTH, "p": p[i], "q": q[i]}) for i in range(WIDTH * HEIGHT)]
    shape = [HEIGHT, WIDTH]
    if not isinstance(kind, list):
        outputs = {"t": {"dtype": kind, "shape": shape, "data": [number(v, kind) for v in values]}}
    elif len(set(kind)) == 1:
        outputs = {"t": {"dtype": kind[0], "shape": shape + [len(kind)], "data": [number(v, kind[0]) for row in values for v in row]}}
    else:
        outputs = {f"t.{c}": {"dtype": k, "shape": shape, "data": [number(row[c], k) for row in values]} for c, k in enumerate(kind)}
    inputs = {"input_p_i32": {"dtype": "i32", "shape": shape, "data": p}, "input_q_u8": {"dtype": "u8", "shape": shape, "data": q}}
    return {"name": f"mfg_oracle_{seed}", "lang": "mfg", "program": program, "inputs": inputs, "outputs": outputs, "rtol": 0, "atol": 0}


def main():
    sys.setrecursionlimit(10000)
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    cases = []
    while len(cases) < count:
        seed += 1
        made = case(seed)
        if len(made["program"]) <= 4000:
            cases.append(made)
    print('{"format": 1, "cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}")


if __name__ == "__main__":
    main()
