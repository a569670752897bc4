#!/usr/bin/env python3
"""Writes the texts of the networks that repeat their parts: blocks of GPT-2, ResNet-50, an LSTM.

Usage: generate.py [--check]. With --check nothing is written, and the status is 1 where a file differs."""
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent


class Types:
    """What a network is stored in. In bf16 statistics and weights of attention are f32."""

    def __init__(self, bf16):
        self.suffix = "_bf16" if bf16 else ""
        self.header = ["//: floats bf16"] if bf16 else []
        self.bf16 = bf16

    def wide(self, x):
        return f"as_float({x}, 32)" if self.bf16 else x

    def narrow(self, x):
        return f"as_bf16({x})" if self.bf16 else x


F32, BF16 = Types(False), Types(True)


def norm(name, of, gain, bias, types):
    """A layer norm of the rows of `of`."""
    return f"""  {name}Sum[b, s, 0: B, S, 1] = +({types.wide(f"{of}[b, s, c]")});
  {name}Off = {of} - {name}Sum / C;
  {name}Var[b, s, 0: B, S, 1] = +({name}Off[b, s, c] * {name}Off[b, s, c]);
  {name} = {types.narrow(f"{name}Off * rsqrt({name}Var / C + 0.00001) * {gain} + {bias}")};
"""


def gpt2_block(n, x, types):
    """Statements of one block, its inputs, and the name of its result; `n` stands behind every name."""
    wide, narrow = types.wide, types.narrow
    inputs = ["G{}[C]", "B{}[C]", "Wqkv{}[C, 3, H, E]", "Bqkv{}[3, H, E]", "Wo{}[H, E, C]", "Bo{}[C]", "Gm{}[C]", "Bm{}[C]",
              "Wu{}[C, F]", "Bu{}[F]", "Wd{}[F, C]", "Bd{}[C]"]
    # Of the gradient of three parts of one tensor, attention's own is found where the parts are tensors.
    q, k, v = (f"QKV{n}[b, {p}, h, " for p in range(3))
    parts = ""
    if types.bf16:
        q, k, v = (f"{part}{n}[b, h, " for part in "QKV")
        parts = "".join(f"  {part}{n}[b, h, s, e: B, H, S, E] = =(QKV{n}[b, {p}, h, s, e]);\n" for p, part in enumerate("QKV"))
    text = norm(f"N{n}", x, f"G{n}", f"B{n}", types) + f"""  P{n}[b, p, h, s, e: B, 3, H, S, E] = +(N{n}[b, s, c] * Wqkv{n}[c, p, h, e]);
  QKV{n} = P{n} + reshape(Bqkv{n}, 3, H, 1, E);
{parts}  L{n}[b, h, s, t: B, H, S, S] = +({wide(q + "s, e]")} * {wide(k + "t, e]")}), s - t < S;
  Z{n} = L{n} * (1.0 / sqrt(1.0 * E));
  Top{n}[b, h, s, 0: B, H, S, 1] = >(Z{n}[b, h, s, t]), s - t < S;
  X{n} = exp(Z{n} - Top{n});
  Sum{n}[b, h, s, 0: B, H, S, 1] = +(X{n}[b, h, s, t]), s - t < S;
  A{n} = {narrow(f"X{n} / Sum{n}")};
  O{n}[b, s, h, e: B, S, H, E] = +(A{n}[b, h, s, t] * {v}t, e]), s - t < S;
  R{n}[b, s, c: B, S, C] = +(O{n}[b, s, h, e] * Wo{n}[h, e, c]);
  Y{n} = {x} + R{n} + Bo{n};
""" + norm(f"M{n}", f"Y{n}", f"Gm{n}", f"Bm{n}", types) + f"""  U{n}[b, s, f: B, S, F] = +(M{n}[b, s, c] * Wu{n}[c, f]);
  T{n} = gelu(U{n} + Bu{n});
  D{n}[b, s, c: B, S, C] = +(T{n}[b, s, f] * Wd{n}[f, c]);
  H{n} = Y{n} + D{n} + Bd{n};
"""
    return text, [i.format(n) for i in inputs], f"H{n}"


def squared_error(of, indices, count, types=F32):
    return f"""  Error = square({types.wide(of)} - Target);
  Total[] = +(Error[{indices}]);
  Loss = Total / ({count});
"""


def function(inputs, outputs, text):
    lines, line = [], ""
    for i in inputs:
        if len(line) + len(i) > 110:
            lines.append(line)
            line = ""
        line += (", " if line else "") + i
    return f"function ({(chr(10) + '    ').join(l + ',' for l in lines)}{chr(10) + '    ' if lines else ''}{line}) -> ({outputs}) {{\n{text}}}\n"


def gpt2(layers, headers, types):
    x, text, inputs = "In", "", ["In[B, S, C]", "Target[B, S, C]"]
    for n in range(1, layers + 1):
        more, own, x = gpt2_block(n, x, types)
        text += more
        inputs += own
    return headers + function(inputs, f"{x}, Loss", text + squared_error(x, "b, s, c", "B * S * C", types))


def places(size):
    """How many places pictures of this size have, as text."""
    return " * ".join(["N", *(s if s.isidentifier() else f"({s})" for s in size)])


class ResNet:
    """Bottleneck blocks. A size is a pair: the text of the height, and that of the width."""

    def __init__(self, types):
        self.text, self.inputs, self.convolutions, self.types = "", [], 0, types

    def convolution(self, x, window, stride, size, channels, passed=None, ends=False):
        """A convolution, the norm by statistics of the batch and what follows: nothing, or relu behind the sum with `passed`."""
        self.convolutions += 1
        n, (i, o), (h, w) = self.convolutions, channels, size
        self.inputs += [f"K{n}[{window}, {window}, {i}, {o}]", f"G{n}[{o}]", f"B{n}[{o}]"]
        middle = (window - 1) // 2

        def at(place, tap):
            return (place if stride == 1 else f"{stride} * {place}") + (f" + {tap} - {middle}" if middle else f" + {tap}")
        count = places(size)
        self.text += f"""  C{n}[n, y, x, o: N, {h}, {w}, {o}] = +({x}[n, {at('y', 'j')}, {at('x', 'i')}, c] * K{n}[j, i, c, o]);
  S{n}[o: {o}] = +({self.types.wide(f"C{n}[n, y, x, o]")});
  D{n} = C{n} - S{n} / ({count});
  V{n}[o: {o}] = +(D{n}[n, y, x, o] * D{n}[n, y, x, o]);
  A{n} = D{n} * rsqrt(V{n} / ({count}) + 0.00001) * G{n} + B{n};
"""
        if ends:
            return f"A{n}"
        total = f"A{n} + {passed}" if passed else f"A{n}"
        self.text += f"  R{n} = {self.types.narrow(f'relu({total})')};\n"
        return f"R{n}"

    def stage(self, x, blocks, stride, before, size, channels):
        """`before`: the size of what comes; `channels`: the names of how many come, stand between and leave."""
        come, between, leave = channels
        for block in range(blocks):
            if block > 0:
                stride, before, come = 1, size, leave
            a = self.convolution(x, 1, 1, before, (come, between))
            b = self.convolution(a, 3, stride, size, (between, between))
            passed = self.convolution(x, 1, stride, size, (come, leave), ends=True) if block == 0 else x
            x = self.convolution(b, 1, 1, size, (between, leave), passed)
        return x


BLOCKS, STRIDES = (3, 4, 6, 3), (1, 2, 2, 2)


def resnet_stage(number, headers, types):
    net, size, stride = ResNet(types), ("H", "W"), STRIDES[number]
    before = size if stride == 1 else ("HX", "WX")
    y = net.stage("X", BLOCKS[number], stride, before, size, ("I", "M", "O"))
    net.text += squared_error(y, "n, y, x, o", "N * H * W * O", types)
    inputs = [f"X[N, {', '.join(before)}, I]", "Target[N, H, W, O]", *net.inputs]
    return headers + function(inputs, f"{y}, Loss", net.text)


def resnet50(headers):
    net = ResNet(F32)

    def size(shrunk):
        return (f"H / {shrunk}", f"W / {shrunk}")
    x, come = net.convolution("X", 7, 2, size(2), ("I", "M1")), "M1"
    net.text += f"""  Pool[n, y, x, o: N, H / 4, W / 4, M1] = >({x}[n, 2 * y + j - 1, 2 * x + i - 1, o]), j < 3, i < 3;
"""
    x, before = "Pool", size(4)
    for stage, (blocks, stride) in enumerate(zip(BLOCKS, STRIDES), 1):
        net.text += f"  // stage {stage + 1}\n"
        after = size(2 ** (stage + 1))
        x = net.stage(x, blocks, stride, before, after, (come, f"M{stage}", f"O{stage}"))
        before, come = after, f"O{stage}"
    net.text += f"""  Places[n, o: N, O4] = +({x}[n, y, x, o]);
  Mean = Places / ((H / 32) * (W / 32));
  Y[n, f: N, F] = +(Mean[n, o] * Wf[o, f]);
  Logits = Y + Bf;
  Top[n, 0: N, 1] = >(Logits[n, f]);
  Low = Logits - Top;
  Sum[n: N] = +(exp(Low[n, f]));
  Hit = index(Logits, 1) == reshape(Label, N, 1) ? 1.0 : 0.0;
  Of[n: N] = +(Low[n, f] * Hit[n, f]);
  Each = log(Sum) - Of;
  Total[] = +(Each[n]);
  Loss = Total / N;
"""
    return headers + function(["X[N, H, W, I]", "Label[N]", *net.inputs, "Wf[O4, F]", "Bf[F]"], "Logits, Loss", net.text)


def lstm(steps, headers):
    text = f"""  P[t, b, g, h: {steps}, B, 4, H] = +(X[t, b, i] * W[i, g, h]);
  PB = P + Bias;
"""
    state, cell = "Start", "Cell"
    for t in range(steps):
        text += f"""  Q{t}[b, g, h: B, 4, H] = +({state}[b, k] * U[k, g, h]);
  G{t}[b, g, h: B, 4, H] = =(PB[{t}, b, g, h] + Q{t}[b, g, h]);
  C{t}[b, h: B, H] = =(sigmoid(G{t}[b, 1, h]) * {cell}[b, h] + sigmoid(G{t}[b, 0, h]) * tanh(G{t}[b, 2, h]));
  H{t}[b, h: B, H] = =(sigmoid(G{t}[b, 3, h]) * tanh(C{t}[b, h]));
"""
        state, cell = f"H{t}", f"C{t}"
    text += squared_error(state, "b, h", "B * H")
    inputs = [f"X[{steps}, B, I]", "Target[B, H]", "Start[B, H]", "Cell[B, H]", "W[I, 4, H]", "U[H, 4, H]", "Bias[4, H]"]
    return headers + function(inputs, f"{state}, Loss", text)


def header(title, optimiser, data, tolerance, code, call, cases, types=F32):
    """`code`: the names of files with Python, without what tells the module; `call`: the peers' expression."""
    lines = [f"// {title}", "// Written by generate.py.", "//: suite networks 1.5 1.1", "//: kind network", "//: device cpu cuda", "//: measure gflops", *types.header,
             f"//: data {data}", f"//: train Loss {optimiser}{types.suffix}.tile", f"//: tolerance {tolerance}"]
    lines += [f"//: code torch,torch_compile {name}_torch.py" for name in ["loss", *code]]
    # JAX stands beside what is measured on CPUs.
    lines += [] if types.bf16 else [f"//: code jax {name}_jax.py" for name in code]
    peers = "torch,torch_compile" if types.bf16 else "torch,torch_compile,jax"
    return "\n".join([*lines, f"//: peer {peers} {call}", *cases]) + "\n"


def gpt2_texts():
    sizes = "C=768 H=12 E=64 F=3072"
    networks = [
        (1, "gpt2_block", "A block of GPT-2's size: causal attention of twelve heads and two layers, each behind a layer norm.",
         "B=4 S=512", "B=2 S=7 C=12 H=2 E=5 F=11"),
        (12, "gpt2_twelve", "Twelve blocks of GPT-2's size.", "B=1 S=1024", "B=1 S=3 C=4 H=2 E=3 F=5")]
    for blocks, name, title, full, small in networks:
        for types, tolerance in ((F32, 0.001), (BF16, 0.1)):
            case = name + types.suffix
            cases = [f"//: case {case}_1x128 B=1 S=128 {sizes}",
                     f"//: full {case}_{full.replace('B=', '').replace(' S=', 'x')} {full} {sizes}", f"//: small {small}"]
            headers = header(title, "adam", "In Target", tolerance, ["gpt2"], "gpt2(inputs)", cases, types)
            yield f"{case}.tile", gpt2(blocks, headers, types)


def resnet_stage_texts():
    widths = [(56, 64, 64, 256), (28, 256, 128, 512), (14, 512, 256, 1024), (7, 1024, 512, 2048)]
    for number, (size, come, between, leave) in enumerate(widths):
        stride, blocks = STRIDES[number], BLOCKS[number]
        sizes = f"H={size} W={size}" + ("" if stride == 1 else f" HX={2 * size} WX={2 * size}") + f" I={come} M={between} O={leave}"
        title = f"Stage {number + 2} of ResNet-50, {blocks} blocks with statistics of the batch."
        for types, tolerance in ((F32, 0.01), (BF16, 0.3)):
            name = f"resnet50_stage_{number + 2}{types.suffix}"
            cases = [f"//: case {name}_2 N=2 {sizes}", f"//: full {name}_16 N=16 {sizes}",
                     f"//: small N=2 H=3 W=4{'' if stride == 1 else ' HX=6 WX=8'} I=5 M=3 O=7"]
            headers = header(title, "sgd", "X Target", tolerance, ["pictures", "resnet"], f"resnet_stage(inputs, {blocks}, {stride})",
                             cases, types)
            yield f"{name}.tile", resnet_stage(number, headers, types)


def resnet50_text():
    widths = "I=3 M1=64 O1=256 M2=128 O2=512 M3=256 O3=1024 M4=512 O4=2048 F=1000"
    title = "ResNet-50 with statistics of the batch, and the cross entropy of labels."
    return resnet50(header(title, "sgd", "X Label", 0.01, ["pictures", "resnet"], "resnet50(inputs)", [
        f"//: case resnet50_2 N=2 H=224 W=224 {widths} Label=2:i32", f"//: full resnet50_16 N=16 H=224 W=224 {widths} Label=16:i32",
        "//: small N=4 H=64 W=64 I=2 M1=3 O1=4 M2=3 O2=4 M3=3 O3=4 M4=3 O4=4 F=130 Label=4:i32"]))


def lstm_text():
    title = "A long short-term memory over 64 steps; the gates are in PyTorch's order."
    return lstm(64, header(title, "sgd", "X Target Start Cell", 0.001, ["lstm"], "lstm(inputs)", [
        "//: case lstm_16x256 B=16 I=256 H=256", "//: full lstm_64x512 B=64 I=512 H=512", "//: small B=2 I=3 H=4"]))


def texts():
    yield from gpt2_texts()
    yield from resnet_stage_texts()
    yield "resnet50.tile", resnet50_text()
    yield "lstm.tile", lstm_text()


def main():
    different = False
    for name, text in texts():
        path = FOLDER / name
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path} differs from what generate.py writes")
            different = True
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
