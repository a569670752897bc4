"""The Language Server, driven as an editor does: test_lsp.py PATH_OF_TILE ROOT."""
import json
import os
import pathlib
import queue
import random
import subprocess
import sys
import threading
import unittest

TILE, ROOT = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
del sys.argv[1:3]
SOFTMAX = """function (X[M, N]) -> (P) {
  Top[m, 0: M, 1] = >(X[m, n]);
  E = exp(X - Top);
  Sum[m, 0: M, 1] = +(E[m, n]);
  P = E / Sum;
}
"""
FILTER = """let [W, H] = input_u8.extent()
let source = sampler<input_u8>(address=.ClampToEdge)
fn gray |c: i32v4| { (c.x + c.y + c.z)/3 }
def result_u8 |x, y| {
  let v = gray(i32(source(x+1, y)))
  u8[v, v, v, 255]
}
"""
SECONDS = 60  # for one answer, on a busy machine


class Client:
    """A client of the protocol over the server's standard input and output."""

    def __init__(self, capabilities=None, start=True):
        self.process = subprocess.Popen([TILE, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.messages = queue.Queue()
        self.diagnostics = {}
        self.number = 0
        threading.Thread(target=self.read, daemon=True).start()
        if start:
            self.server = self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities or {}})
            self.tell("initialized", {})

    def read(self):
        stream = self.process.stdout
        while True:
            length = None
            while (line := stream.readline().strip()):
                name, value = line.split(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if length is None:
                self.messages.put(None)
                return
            self.messages.put(json.loads(stream.read(length)))

    def send_raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def next(self):
        message = self.messages.get(timeout=SECONDS)
        if message and message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        return message

    def tell(self, method, params):
        self.send({"method": method, "params": params})

    def request(self, method, params):
        """The whole answer to a request, after the diagnostics that came before."""
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            message = self.next()
            if message is None or message.get("id") == self.number:
                return message

    def ask(self, method, params):
        answer = self.request(method, params)
        if "error" in answer:
            raise AssertionError(answer["error"])
        return answer["result"]

    def open(self, uri, text, language=None):
        item = {"uri": uri, "languageId": language or uri.rsplit(".", 1)[1], "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        self.diagnostics.pop(uri, None)
        while uri not in self.diagnostics:
            self.next()
        return self.diagnostics[uri]

    def change(self, uri, *changes):
        self.tell("textDocument/didChange", {"textDocument": {"uri": uri, "version": 2}, "contentChanges": list(changes)})
        self.diagnostics.pop(uri, None)
        while uri not in self.diagnostics:
            self.next()
        return self.diagnostics[uri]

    def at(self, uri, line, character, **more):
        return {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}, **more}

    def end(self):
        self.ask("shutdown", None)
        self.tell("exit", None)
        status = self.process.wait(SECONDS)
        self.close()
        return status

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def span(begin_line, begin, end_line, end):
    return {"start": {"line": begin_line, "character": begin}, "end": {"line": end_line, "character": end}}


class Lsp(unittest.TestCase):
    def client(self, *arguments, **more):
        client = Client(*arguments, **more)
        self.addCleanup(client.close)
        return client

    def test_a_session(self):
        client = self.client()
        self.assertEqual(client.server["capabilities"]["positionEncoding"], "utf-16")
        self.assertEqual(client.open("file:///a.tile", SOFTMAX), [])
        (wrong,) = client.open("file:///b.tile", "function (A[N]) -> (O) {\n  O[i: N] = +(A[i * i]);\n}\n")
        self.assertEqual((wrong["range"], wrong["severity"], wrong["code"]), (span(1, 16, 1, 21), 1, "linearity"))
        (unread,) = client.open("file:///c.tile", "function (A, B) -> (O) { O = A; }")
        self.assertEqual((unread["severity"], unread["code"], unread["range"]), (2, "unread", span(0, 13, 0, 14)))
        client.tell("textDocument/didClose", {"textDocument": {"uri": "file:///b.tile"}})
        self.assertEqual(client.end(), 0)

    def test_edits_are_incremental(self):
        client = self.client()
        uri = "file:///a.tile"
        client.open(uri, SOFTMAX)
        edit = {"range": span(2, 6, 2, 9), "text": "exq"}
        (wrong,) = client.change(uri, edit)
        self.assertEqual(wrong["range"]["start"], {"line": 2, "character": 6})
        # Two edits, the second in the text that the first made; characters of UTF-16 units.
        self.assertEqual(client.change(uri, {"range": span(2, 6, 2, 9), "text": "/* 𝒳 */ exp"},
                                       {"range": span(2, 15, 2, 16), "text": "e"}), [])
        formatted = client.ask("textDocument/formatting", {"textDocument": {"uri": uri}, "options": {}})
        self.assertEqual(formatted, [])
        self.assertEqual(client.change(uri, {"text": SOFTMAX}), [])

    def test_encodings(self):
        text = "function (A) -> (O) { /* 𝒳é */ O = B; }"
        (wide,) = self.client().open("file:///a.tile", text)
        self.assertEqual(wide["range"], span(0, 36, 0, 37))
        utf8 = self.client({"general": {"positionEncodings": ["utf-8"]}})
        (bytes_,) = utf8.open("file:///a.tile", text)
        self.assertEqual(bytes_["range"], span(0, 39, 0, 40))

    def hovered(self, client, uri, line, character):
        told = client.ask("textDocument/hover", client.at(uri, line, character))
        return told and told["contents"]["value"]

    def test_hover(self):
        client = self.client()
        uri = "file:///a.tile"
        client.open(uri, SOFTMAX)
        self.assertEqual(self.hovered(client, uri, 0, 10), "input `X[M, N]`")
        self.assertEqual(self.hovered(client, uri, 2, 15), "tensor `Top[M, 1]`")
        self.assertEqual(self.hovered(client, uri, 2, 2), "tensor `E[M, N]`")
        self.assertEqual(self.hovered(client, uri, 4, 3), "output `P[M, N]`")
        self.assertEqual(self.hovered(client, uri, 0, 12), "dimension `M`")
        self.assertIn("scalar function", self.hovered(client, uri, 2, 7))
        self.assertIsNone(self.hovered(client, uri, 4, 4))
        client.open("file:///f.mfg", FILTER)
        self.assertIn("of `u8`", self.hovered(client, "file:///f.mfg", 1, 24))
        self.assertIn("function `gray`", self.hovered(client, "file:///f.mfg", 4, 12))
        client.open("file:///m.lift", "val f = fun(\n  ArrayType(Float, N), A =>\n  Map(x => x * 2.0f) $ A)\n")
        self.assertEqual(self.hovered(client, "file:///m.lift", 1, 23), "input `A[N]` of `f32`")
        self.assertIn("a pattern", self.hovered(client, "file:///m.lift", 2, 3))
        step = "Map(w => (At(0) $ w) + (At(2) $ w)) o Slide(3, 1) o Pad(1, 1, Clamp)"
        client.open("file:///l.lift", f"val f = fun(\n  ArrayType(Float, N), A =>\n  Iterate(9, {step}) $ A)\n")
        self.assertEqual(self.hovered(client, "file:///l.lift", 1, 23), "input `A[N]` of `f32`")

    def completed(self, client, uri, line, character):
        return {row["label"] for row in client.ask("textDocument/completion", client.at(uri, line, character))["items"]}

    def test_completion(self):
        client = self.client()
        uri = "file:///a.tile"
        client.open(uri, SOFTMAX)
        client.change(uri, {"range": span(4, 6, 4, 13), "text": "so"})
        self.assertEqual(self.completed(client, uri, 4, 8), {"softplus", "sort"})
        everything = self.completed(client, uri, 4, 6)
        self.assertLessEqual({"X", "M", "N", "Top", "E", "Sum", "P", "exp", "gather", "as_float", "default"}, everything)
        client.open("file:///f.mfg", FILTER)
        self.assertLessEqual({"W", "source", "gray", "sampler", "clamp", "let"}, self.completed(client, "file:///f.mfg", 5, 2))
        client.open("file:///m.lift", "val f = fun(\n  ArrayType(Float, N), A =>\n  Sl")
        self.assertEqual(self.completed(client, "file:///m.lift", 2, 4), {"Slide", "Slide2D", "Slide3D", "SlideND"})

    def defined(self, client, uri, line, character):
        found = client.ask("textDocument/definition", client.at(uri, line, character))
        return found and (found["range"]["start"]["line"], found["range"]["start"]["character"])

    def test_definitions(self):
        client = self.client()
        uri = "file:///a.tile"
        client.open(uri, SOFTMAX)
        self.assertEqual(self.defined(client, uri, 2, 14), (1, 2))
        self.assertEqual(self.defined(client, uri, 2, 10), (0, 10))
        self.assertEqual(self.defined(client, uri, 1, 12), (0, 12))
        self.assertIsNone(self.defined(client, uri, 2, 7))
        client.open("file:///f.mfg", FILTER)
        self.assertEqual(self.defined(client, "file:///f.mfg", 4, 11), (2, 3))
        self.assertEqual(self.defined(client, "file:///f.mfg", 4, 26), (3, 15))
        self.assertEqual(self.defined(client, "file:///f.mfg", 4, 21), (1, 4))
        self.assertEqual(self.defined(client, "file:///f.mfg", 5, 5), (4, 6))
        client.open("file:///m.lift", "val f = fun(\n  ArrayType(Float, N), A =>\n  Map(x => x * 2.0f) $ A)\n")
        self.assertEqual(self.defined(client, "file:///m.lift", 2, 11), (2, 6))
        self.assertEqual(self.defined(client, "file:///m.lift", 2, 23), (1, 23))

    def places(self, client, method, uri, line, character, **more):
        found = client.ask(f"textDocument/{method}", client.at(uri, line, character, **more))
        return [(row["range"]["start"]["line"], row["range"]["start"]["character"]) for row in found]

    def test_references(self):
        client = self.client()
        uri = "file:///a.tile"
        client.open(uri, SOFTMAX)
        with_it, without = ({"context": {"includeDeclaration": flag}} for flag in (True, False))
        self.assertEqual(self.places(client, "references", uri, 2, 14, **with_it), [(1, 2), (2, 14)])
        self.assertEqual(self.places(client, "references", uri, 2, 14, **without), [(2, 14)])
        # A dimension and an index: the whole text, and the statement.
        self.assertEqual(len(self.places(client, "references", uri, 0, 12)), 3)
        self.assertEqual(self.places(client, "references", uri, 1, 6), [(1, 6), (1, 24)])
        self.assertEqual(self.places(client, "references", uri, 2, 7), [])
        kinds = [row["kind"] for row in client.ask("textDocument/documentHighlight", client.at(uri, 2, 14))]
        self.assertEqual(kinds, [3, 2])
        client.open("file:///f.mfg", FILTER)
        self.assertEqual(self.places(client, "references", "file:///f.mfg", 5, 5), [(4, 6), (5, 5), (5, 8), (5, 11)])
        self.assertEqual(self.places(client, "references", "file:///f.mfg", 2, 9), [(2, 9), (2, 22), (2, 28), (2, 34)])
        # The x of c.x is no variable.
        self.assertEqual(self.places(client, "references", "file:///f.mfg", 3, 15), [(3, 15), (4, 26)])

    def renamed(self, client, uri, text, line, character, name):
        """The text with the edits of a renaming, or why there is none."""
        answer = client.request("textDocument/rename", client.at(uri, line, character, newName=name))
        if "error" in answer:
            return answer["error"]["message"]
        lines = text.split("\n")
        for edit in reversed(answer["result"]["changes"][uri]):
            start, end = edit["range"]["start"], edit["range"]["end"]
            row = lines[start["line"]]
            lines[start["line"]] = row[:start["character"]] + edit["newText"] + row[end["character"]:]
        return "\n".join(lines)

    def test_rename(self):
        client = self.client()
        uri = "file:///a.tile"
        client.open(uri, SOFTMAX)
        prepared = client.ask("textDocument/prepareRename", client.at(uri, 2, 14))
        self.assertEqual(prepared, {"range": span(2, 14, 2, 17), "placeholder": "Top"})
        self.assertIsNone(client.ask("textDocument/prepareRename", client.at(uri, 2, 7)))
        self.assertEqual(self.renamed(client, uri, SOFTMAX, 2, 14, "Most"), SOFTMAX.replace("Top", "Most"))
        self.assertEqual(self.renamed(client, uri, SOFTMAX, 0, 12, "Rows"), SOFTMAX.replace("M", "Rows"))
        once = SOFTMAX.replace("Top[m, 0: M, 1] = >(X[m, n])", "Top[row, 0: M, 1] = >(X[row, n])")
        self.assertEqual(self.renamed(client, uri, SOFTMAX, 1, 6, "row"), once)
        for line, character, name, why in ((2, 14, "E", "already"), (2, 14, "exp", "own"), (2, 14, "a b", "no name"),
                                           (2, 14, "", "no name"), (2, 14, "top", ""), (2, 7, "Log", "no name"),
                                           (1, 6, "n", "already")):
            told = self.renamed(client, uri, SOFTMAX, line, character, name)
            self.assertNotIn("function (X[M, N])", told)
            self.assertIn(why, told)
        # Of a text that is no program nothing is renamed.
        client.change(uri, {"text": SOFTMAX + "("})
        self.assertIn("mend it first", self.renamed(client, uri, SOFTMAX, 2, 14, "Most"))
        client.open("file:///f.mfg", FILTER)
        self.assertEqual(self.renamed(client, "file:///f.mfg", FILTER, 4, 11, "mean"), FILTER.replace("gray", "mean"))
        self.assertEqual(self.renamed(client, "file:///f.mfg", FILTER, 3, 15, "column"),
                         FILTER.replace("|x, y|", "|column, y|").replace("source(x+1", "source(column+1"))
        lift = "val f = fun(\n  ArrayType(Float, N), A =>\n  Map(x => x * 2.0f) $ A)\n"
        client.open("file:///m.lift", lift)
        self.assertEqual(self.renamed(client, "file:///m.lift", lift, 2, 11, "cell"),
                         lift.replace("x => x", "cell => cell"))
        self.assertEqual(self.renamed(client, "file:///m.lift", lift, 1, 23, "Row"),
                         lift.replace(", A =>", ", Row =>").replace("$ A", "$ Row"))

    def test_gradients_are_an_action(self):
        uri = "file:///dir.d/mm.tile"
        text = "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }"
        whole = {"textDocument": {"uri": uri}, "range": span(0, 0, 0, 0), "context": {"diagnostics": []}}
        client = self.client()
        client.open(uri, text)
        (action,) = client.ask("textDocument/codeAction", whole)
        (edit,) = action["edit"]["changes"][uri]
        self.assertEqual(edit["range"], span(0, 0, 0, len(text)))
        self.assertEqual(client.change(uri, {"text": edit["newText"]}), [])
        self.assertIn("DA[i, k: M, L]", edit["newText"])
        creating = self.client({"workspace": {"workspaceEdit": {"resourceOperations": ["create"]}}})
        creating.open(uri, text)
        (action,) = creating.ask("textDocument/codeAction", whole)
        create, write = action["edit"]["documentChanges"]
        self.assertEqual(create["uri"], "file:///dir.d/mm.grad.tile")
        self.assertEqual(write["edits"][0]["newText"], edit["newText"])
        client.open(uri, "function (")
        self.assertEqual(client.ask("textDocument/codeAction", whole), [])

    def test_formatting(self):
        client = self.client()
        uri = "file:///a.tile"
        client.open(uri, "function (A)->(O) { O=A; }")
        (edit,) = client.ask("textDocument/formatting", {"textDocument": {"uri": uri}, "options": {}})
        self.assertEqual(edit["newText"], "function (A) -> (O) {\n  O = A;\n}\n")
        client.change(uri, {"text": "function (A -> (O) { O = A; }"})
        self.assertIn("error", client.request("textDocument/formatting", {"textDocument": {"uri": uri}, "options": {}}))

    def test_every_program_is_analysed_as_the_compiler_does(self):
        client = self.client()
        count = 0
        for folder in ("bench", "runtime", "tests/networks", "tests/fuzz"):
            for suffix in ("tile", "mfg", "lift"):
                for path in sorted((ROOT / folder).rglob(f"*.{suffix}")):
                    text = path.read_bytes().decode("utf-8", "replace")
                    errors = [d for d in client.open(path.as_uri(), text) if d["severity"] == 1]
                    self.assertLessEqual(len(errors), 1)
                    # Some workloads are header lines alone.
                    if folder != "tests/fuzz" and ": program " not in text:
                        self.assertEqual(errors, [], path)
                    lines = text.split("\n")
                    line = len(lines) // 2
                    for method in ("hover", "completion", "definition", "references", "documentHighlight",
                                   "prepareRename"):
                        answer = client.request(f"textDocument/{method}",
                                                client.at(path.as_uri(), line, len(lines[line]) // 2))
                        self.assertNotIn("error", answer)
                    client.tell("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})
                    count += 1
        self.assertGreater(count, 200)

    def test_hostile_messages_get_an_answer_or_none(self):
        client = self.client()
        uri = "file:///a.tile"
        client.open(uri, SOFTMAX)
        bodies = [b"", b"{", b"[]", b"null", b"1", b'"a"', b"\xff\xfe", b'{"id": 7}', b'{"id": 7, "method": 3}',
                  b'{"id": 7, "method": "nothing"}', b'{"id": {}, "method": "textDocument/hover"}',
                  b"[" * 100_000, b'{"a":' * 10_000, b'{"id": 9, "method": "textDocument/hover", "params": []}',
                  b'{"id": 9, "method": "textDocument/hover", "params": {"textDocument": 1}}',
                  b'{"method": "textDocument/didChange", "params": {"textDocument": {"uri": "file:///a.tile"}}}',
                  b'{"method": "textDocument/didOpen"}', b'{"id": 1, "result": null}']
        for body in bodies:
            client.send_raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        far = 2**62
        for line, character in ((-1, -1), (far, far), (-far, far), (2, far), (0, -far), (1.5, "a"), (2**70, 0)):
            client.request("textDocument/hover", client.at(uri, line, character))
        client.change(uri, {"range": span(far, far, -far, -1), "text": "x"}, {"range": span(3, 3, 1, 1), "text": "y"})
        client.send_raw(b"content-length:  2\r\nX: y\r\n\r\n{}")
        client.send_raw(b"Content-Length: %d\r\n\r\n" % (17 << 20) + b" " * (17 << 20))
        client.change(uri, {"text": "function (A) -> (O) { O = " + "(" * 100_000})
        client.change(uri, {"text": "function (A) -> (O) { O = " + "+".join("A" * 20_000) + "; }"})
        self.assertEqual(client.change(uri, {"text": SOFTMAX}), [])
        self.assertEqual(self.hovered(client, uri, 0, 10), "input `X[M, N]`")
        self.assertEqual(client.end(), 0)

    def test_initialize_with_anything(self):
        for params in (None, {}, {"capabilities": None}, {"capabilities": 7}, {"capabilities": {"general": []}},
                       {"capabilities": {"general": {"positionEncodings": 1}, "workspace": [{}]}}):
            client = self.client(start=False)
            told = client.ask("initialize", params)["serverInfo"]
            version = subprocess.run([TILE, "--version"], capture_output=True, text=True, timeout=60).stdout
            self.assertEqual(f"{told['name']} {told['version']}\n", version)
            self.assertEqual(client.open("file:///a.tile", SOFTMAX), [])
            self.assertEqual(client.request("initialize", {})["error"]["code"], -32600)
            self.assertEqual(client.end(), 0)
        missing = self.client(start=False)
        missing.send({"id": 1, "method": "initialize"})
        self.assertIn("capabilities", missing.next()["result"])
        for params in (1, "a", [], True):
            client = self.client(start=False)
            self.assertEqual(client.request("initialize", params)["error"]["code"], -32602, params)
            # Nothing was begun by it.
            self.assertEqual(client.request("textDocument/hover", {})["error"]["code"], -32002)
            client.ask("initialize", {})
            self.assertEqual(client.end(), 0)

    def test_random_edits(self):
        draw = random.Random(1)
        client = self.client()
        pieces = ["(", ")", "[", "]", "{", "}", ";", "let ", "|", "\"", "/*", "#", "X", "0", "1.", "é", "𝒳", "\n", "\\", "\0"]
        for uri, text in (("file:///a.tile", SOFTMAX), ("file:///f.mfg", FILTER)):
            client.open(uri, text)
            for _ in range(150):
                begin, end = sorted((draw.randrange(8), draw.randrange(30)) for _ in range(2))
                if draw.random() < 0.7:
                    end = begin
                client.change(uri, {"range": span(*begin, *end), "text": draw.choice(pieces)})
                method = draw.choice(["hover", "completion", "definition"])
                answer = client.request(f"textDocument/{method}", client.at(uri, *begin))
                self.assertNotIn("error", answer)
                client.request("textDocument/formatting", {"textDocument": {"uri": uri}})
        self.assertEqual(client.end(), 0)

    def test_work_for_a_keystroke_is_bounded(self):
        import time
        client = self.client()
        uri = "file:///big.tile"
        lines = "".join(f"  B{i} = exp(B{i - 1});\n" for i in range(1, 20_000))
        client.open(uri, "function (B0) -> (B19999) {\n" + lines + "}\n")
        start = time.monotonic()
        client.change(uri, {"range": span(5000, 0, 5000, 0), "text": " "})
        client.ask("textDocument/completion", client.at(uri, 5000, 4))
        self.assertLess(time.monotonic() - start, 20)

    def test_the_protocol_begins_and_ends(self):
        early = self.client(start=False)
        self.assertEqual(early.request("textDocument/hover", {})["error"]["code"], -32002)
        early.tell("exit", None)
        self.assertEqual(early.process.wait(SECONDS), 1)
        gone = self.client()
        gone.process.stdin.close()
        self.assertEqual(gone.process.wait(SECONDS), 1)
        gone.process.stdin = open(os.devnull, "wb")
        for garbage in (b"\n\n\n", b"Content-Length: -5\r\n\r\n", b"Content-Length: x\r\n\r\n", b"a" * 10_000,
                        b"Content-Length: 99999999999999999999999\r\n\r\n"):
            other = self.client(start=False)
            try:
                other.send_raw(garbage)
                other.process.stdin.close()
            except BrokenPipeError:
                pass
            self.assertEqual(other.process.wait(SECONDS), 1)
            other.process.stdin = open(os.devnull, "wb")


if __name__ == "__main__":
    unittest.main()
