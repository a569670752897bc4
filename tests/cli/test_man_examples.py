"""Every command's manual page has examples, and they work: test_man_examples.py PATH_OF_TILE [PATH_OF_TILE_BENCH]."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:]]
sys.argv[1:] = []
# These exit with 1 where they find something: a slower benchmark, a cliff, a machine that lacks something.
MAY_FIND = {"compare", "cliffs", "sizes", "doctor"}
NONE = {"lsp"}  # an editor starts it
SECONDS = 300  # on a busy machine


def examples(page):
    """The command lines of a page's examples, as they are typed."""
    section = re.search(r"^\.SH EXAMPLES\n(.*?)(?=^\.SH|\Z)", page, re.M | re.S)
    lines = re.findall(r"^\.nf\n(.*?)\n\.fi$", section[1] if section else "", re.M | re.S)
    return [line.replace("\\&", "").replace("\\-", "-").replace("\\e", "\\") for line in lines]


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = os.pathsep.join({os.path.dirname(program) for program in PROGRAMS})
        cls.environment = dict(os.environ, TILE_CACHE_DIR=os.path.join(cls.folder.name, "cache"),
                               PATH=path + os.pathsep + os.environ["PATH"])
        os.mkdir(os.path.join(cls.folder.name, "cache"), 0o700)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def shell(self, line):
        return subprocess.run(["bash", "-e", "-c", line], cwd=self.folder.name, env=self.environment, timeout=SECONDS,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def told(self, line):
        done = self.shell(line)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def commands(self, program):
        names = re.findall(r"^  ([a-z]+) ", self.told(f"{program} --help").split("Subcommands:")[1], re.M)
        return sorted(names, key=lambda name: name != "new")  # what it writes the others read

    def test_all(self):
        for path in PROGRAMS:
            program = os.path.basename(path)
            for command in ["", *self.commands(program)]:
                lines = examples(self.told(f"{program} man {command}"))
                self.assertEqual(bool(lines), command not in NONE, f"{program}-{command}(1)")
                if command == "new":  # the page of the whole program has written one already
                    os.remove(os.path.join(self.folder.name, "start.tile"))
                for line in lines:
                    with self.subTest(line=line):
                        done = self.shell(line)
                        fine = (0, 1) if command in MAY_FIND else (0,)
                        self.assertIn(done.returncode, fine, done.stdout[-2000:] + done.stderr[-2000:])
                        self.assertNotIn("tile: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
