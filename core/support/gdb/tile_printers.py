"""Pretty printers for gdb: expressions, affine forms, scalar bodies and loop nests as their own text forms.

    (gdb) source core/support/gdb/tile_printers.py
    (gdb) print expression
    $1 = M * 8 + min(i, 3)

They read the memory of the program and call nothing in it, so that they work on core dumps too. They need debug
information of types (-g; the presets' -g1 has lines only) and libstdc++'s own printers, which gdb loads by itself."""
import gdb
import gdb.printing

MOST_LINES = 200  # of a body or nest: a longer one is cut


def elements(vector):
    """The elements of a std::vector or a tile::IdVector."""
    begin, end = vector["_M_impl"]["_M_start"], vector["_M_impl"]["_M_finish"]
    return [begin[i] for i in range(int(end - begin))]


def string(value):
    """The contents of a std::string."""
    data, length = value["_M_dataplus"]["_M_p"], int(value["_M_string_length"])
    return data.string(length=length) if length else ""


def number_of(identifier):
    """The number of a tile::Id."""
    return int(identifier["number_"])


def name_of(enumerator):
    """tile::ExprKind::add as add."""
    return str(enumerator).rsplit("::", 1)[-1]


def held(variant):
    """The value that a std::variant holds."""
    children = list(gdb.default_visualizer(variant).children())
    return children[0][1] if children else None


INFIX = {"add": " + ", "sub": " - ", "mul": " * ", "exact_div": " / ", "trunc_div": " / ", "trunc_mod": " % ",
         "less": " < ", "equal": " == "}
CALLS = {"floor_div": "floordiv", "floor_mod": "mod", "min": "min", "max": "max"}


def expression(e):
    """A tile::Expr, as tile::to_string prints it up to parentheses."""
    pointer = e["node_"]["_M_ptr"]
    if int(pointer) == 0:
        return "<moved from>"
    node = pointer.dereference()
    kind = name_of(node["kind"])
    if kind == "constant":
        return str(int(node["value"]))
    if kind == "variable":
        return string(node["name"])
    args = [expression(arg) for arg in elements(node["args"])]
    if kind == "neg":
        return "-" + args[0]
    if kind == "select":
        return "({} ? {} : {})".format(*args)
    if kind in CALLS:
        return CALLS[kind] + "(" + ", ".join(args) + ")"
    grouped = ["(" + a + ")" if " " in a and not a.endswith(")") else a for a in args]
    text = INFIX[kind].join(grouped)
    return "(" + text + ")" if kind in ("less", "equal") else text


def node_text(node):
    kind = name_of(node["kind"])
    args = " ".join("%" + str(number_of(a)) for a in elements(node["args"]))
    if kind == "integer":
        return "integer " + str(int(node["integer"]))
    if kind == "real":
        return "real " + str(float(node["real"]))
    if kind == "size":
        return "size " + expression(node["expr"])
    if kind == "operation":
        return name_of(node["op"]).rstrip("_") + " " + args
    if kind == "fold":
        return "fold " + name_of(node["op"]) + " " + str(int(node["slot"])) + " " + args
    return (kind + " " + str(int(node["slot"])) + " " + args).rstrip()


def body_lines(body):
    """A tile::Body: a line for each node, then its results."""
    lines = []
    for number, node in enumerate(elements(body["nodes"])):
        lines.append("%{}:{} = {}".format(number, name_of(node["type"]).rstrip("_"), node_text(node)))
        region = node["region"]["_M_ptr"]
        if int(region) != 0:
            lines += ["  " + line for line in body_lines(region.dereference())]
    lines.append("yield " + " ".join("%" + str(number_of(r)) for r in elements(body["results"])))
    return lines


def cell(access, buffers):
    number = number_of(access["buffer"])
    name = string(buffers[number]["name"]) if 0 <= number < len(buffers) else "buffer" + str(number)
    values = [int(v) for v in elements(access["values"])]
    index = []
    for d, e in enumerate(elements(access["index"])):
        index.append("%" + str(values[d]) if d < len(values) and values[d] >= 0 else expression(e))
    return name + "[" + ", ".join(index) + "]"


def statement_lines(statement, buffers):
    what = held(statement["what"])
    kind = what.type.strip_typedefs().name.rsplit("::", 1)[-1]
    if kind == "For":
        head = "{} {} in [{}, +{})".format(name_of(what["kind"]), string(what["variable"]), expression(what["begin"]),
                                            expression(what["extent"]))
        return [head + " {"] + block_lines(what["body"], buffers) + ["}"]
    if kind == "If":
        tests = [expression(e) + " >= 0" for e in elements(what["nonnegative"])]
        tests += ["predicate"] if elements(what["predicate"]["results"]) else []
        lines = ["if " + " and ".join(tests) + " {"] + block_lines(what["then"], buffers) + ["}"]
        if elements(what["otherwise"]):
            lines += ["else {"] + block_lines(what["otherwise"], buffers) + ["}"]
        return lines
    if kind == "Store":
        loads = ", ".join(cell(a, buffers) for a in elements(what["loads"]))
        head = "{} {} from ({})".format(cell(what["target"], buffers), name_of(what["kind"]), loads)
        return [head + " {"] + ["  " + line for line in body_lines(what["body"])] + ["}"]
    if kind in ("Alloc",):
        return ["alloc " + string(buffers[number_of(what["buffer"])]["name"])]
    if kind == "Copy":
        return ["copy {} from {}".format(string(buffers[number_of(what["to"])]["name"]),
                                         string(buffers[number_of(what["from"])]["name"]))]
    return [kind]


def block_lines(block, buffers):
    return ["  " + line for statement in elements(block) for line in statement_lines(statement, buffers)]


def cut(lines):
    if len(lines) > MOST_LINES:
        lines = lines[:MOST_LINES] + ["… {} more lines".format(len(lines) - MOST_LINES)]
    return "\n".join(lines)


class Printer:
    def __init__(self, text):
        self.text, self.value = text, None

    def __call__(self, value):
        bound = Printer(self.text)
        bound.value = value
        return bound

    def to_string(self):
        return self.text(self.value)


def nest_text(nest):
    buffers = elements(nest["buffers"])
    lines = ["nest " + string(nest["name"]) + " {"]
    for b in buffers:
        shape = ", ".join(str(int(n)) for n in elements(b["shape"]))
        lines.append("  {} {}[{}]:{}".format(name_of(b["scope"]), string(b["name"]), shape,
                                             name_of(b["type"]).rstrip("_")))
    return cut(lines + block_lines(nest["body"], buffers) + ["}"])


def register(objfile=None):
    printers = gdb.printing.RegexpCollectionPrettyPrinter("tile")
    printers.add_printer("Id", "^tile::Id<", Printer(lambda identifier: str(number_of(identifier))))
    printers.add_printer("Expr", "^tile::Expr$", Printer(expression))
    printers.add_printer("Body", "^tile::Body$", Printer(lambda body: cut(body_lines(body))))
    printers.add_printer("Nest", "^tile::nest::Nest$", Printer(nest_text))
    gdb.printing.register_pretty_printer(objfile, printers, replace=True)


register()
