#!/usr/bin/env python3
"""What the gradients of a stage of ResNet-50 in f32 differ from those in f64 by, beyond rounding, is which sums near
zero relu lets through: given the decisions of the f32 run, the f64 program has the same gradients.

Usage: relu_decisions.py TILE FILE.tile. All numbers are worked on in Tile programs, so that no NumPy is needed."""
import pathlib
import re
import subprocess
import sys
import tempfile

# Of a gradient's length. Sums of 10,000 terms of f32 are rounded by some 1e-5, and gradients of biases cancel.
MOST = 1e-4


def run(tile, *arguments):
    done = subprocess.run([tile, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments[:2]))}: {done.stderr}")
    return done.stdout


class Stage:
    def __init__(self, path):
        text = path.read_text()
        words = re.search(r"^//: case \S+ (.*)$", text, re.M)[1].split()
        self.sizes = {name: int(value) for name, value in (word.split("=") for word in words)}
        data = re.search(r"^//: data (.*)$", text, re.M)[1].split()
        body = text[text.index("function ("):]
        self.arguments = re.search(r"function \((.*?)\) ->", body, re.S)[1]
        self.inputs = dict(re.findall(r"(\w+)\[([^\]]*)\]", self.arguments))
        self.weights = [name for name in self.inputs if name not in data]
        self.activations = []
        # What relu reads gets a name: a result of the run in f32.
        self.statements = re.sub(r"  (\w+) = relu\(([^;]*)\);", self.named, body[body.index("{\n") + 2:body.rindex("}")])

    def named(self, statement):
        self.activations.append(statement[1])
        return f"  Of{statement[1]} = {statement[2]};\n  {statement[1]} = relu(Of{statement[1]});"

    def shape(self, name):
        return "x".join(str(self.sizes[dim] if dim in self.sizes else int(dim)) for dim in self.inputs[name].split(", "))

    def rounded(self):
        made = "".join(f", Of{name}" for name in self.activations)
        return f"function ({self.arguments}) -> (Loss{made}) {{\n{self.statements}}}\n"

    def decided(self):
        """In f64 of inputs of f32, with relu's decisions as inputs."""
        more = "".join(f", At{name}[{', '.join(f'Z{name}{d}' for d in range(4))}]" for name in self.activations)
        given = re.sub(r"(\w+)\[", r"\1_f32[", self.arguments)
        wide = "".join(f"  {name} = as_float({name}_f32, 64);\n" for name in self.inputs)
        chosen = re.sub(r"relu\(Of(\w+)\)", r"select(At\1 > 0, Of\1, 0)", self.statements)
        return f"function ({given}{more}) -> (Loss) {{\n{wide}{chosen}}}\n"


def gradients(tile, folder, name, text, inputs, weights, outputs):
    """Runs the program of gradients; the files of its outputs."""
    program = folder / f"{name}.tile"
    program.write_text(text)
    step = folder / f"{name}_gradients.tile"
    step.write_text(run(tile, "grad", program, "--of", "Loss", "--wrt", ",".join(weights)))
    files = {output: folder / f"{name}_{output}.npy" for output in [f"D{w}" for w in weights] + outputs}
    arguments = [f"--in={key}={value}" for key, value in inputs.items()]
    arguments += [f"--out={key}={path}" for key, path in files.items()]
    run(tile, "run", step, "--no-warnings", "--backend", "cpu", *arguments)
    return files


def distance(tile, folder, got, expected, dims):
    """Roots of sums of squares: of the difference over that of what is expected."""
    names = [f"N{d}" for d in range(dims)]
    at = ", ".join(name.lower() for name in names)
    program = folder / "distance.tile"
    program.write_text(f"""function (A[{', '.join(names)}], B[{', '.join(names)}]) -> (Distance) {{
  W = as_float(B, 64);
  E = as_float(A, 64) - W;
  Off[] = +(E[{at}] * E[{at}]);
  All[] = +(W[{at}] * W[{at}]);
  Distance = sqrt(Off / All);
}}
""")
    return float(run(tile, "run", program, "--in", f"A={got}", "--in", f"B={expected}", "--out", "Distance=-").split()[-1])


def drawn(tile, folder, name, shape):
    """A file of random numbers, the same for both programs, in which the input has different names."""
    program, file = folder / f"draw_{name}.tile", folder / f"{name}.npy"
    program.write_text(f"function ({name}) -> (Copied) {{ Copied = {name}; }}\n")
    run(tile, "run", program, "--in", f"{name}=random:{shape}", "--out", f"Copied={file}")
    return file


def main():
    tile, path = sys.argv[1], pathlib.Path(sys.argv[2])
    stage = Stage(path)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        given = {key: drawn(tile, folder, key, stage.shape(key)) for key in stage.inputs}
        made = [f"Of{key}" for key in stage.activations]
        f32 = gradients(tile, folder, "f32", stage.rounded(), {**given, "DLoss": "1.0"}, stage.weights, made)
        inputs = {f"{key}_f32": value for key, value in given.items()}
        inputs.update({f"At{key}": f32[f"Of{key}"] for key in stage.activations})
        inputs["DLoss"] = "1.0"
        f64 = gradients(tile, folder, "f64", stage.decided(), inputs, [f"{key}_f32" for key in stage.weights], [])
        worst = max((distance(tile, folder, f32[f"D{key}"], f64[f"D{key}_f32"], len(stage.inputs[key].split(", "))), key)
                    for key in stage.weights)
    print(f"{path.stem}: {worst[0]:.2e} in the gradient of {worst[1]}, {len(stage.activations)} times relu")
    return 0 if worst[0] <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
