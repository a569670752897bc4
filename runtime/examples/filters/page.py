"""A page of its own with every filter's picture beside the photograph: page.py PATH_OF_TILE PHOTO OUT.html [FILTER…].

PHOTO is a PNG or JPEG file. Pictures are inside the page; nothing else is needed to look at it."""
import base64
import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent
STYLE = """body { font: 15px sans-serif; margin: 2em auto; max-width: 1200px }
section { margin: 2em 0 } .pair { display: flex; gap: 1em } figure { margin: 0; flex: 1 }
img { width: 100%; image-rendering: pixelated; background: repeating-conic-gradient(#ccc 0 25%, #fff 0 50%) 0 / 16px 16px }
pre { font-size: 12px; background: #f4f4f4; padding: 1em; overflow: auto }"""


def embedded(path):
    kind = "jpeg" if path.suffix.lower() in (".jpg", ".jpeg") else "png"
    return f"data:image/{kind};base64," + base64.b64encode(path.read_bytes()).decode()


def filtered(tile, name, photo, out):
    text = (FOLDER / (name + ".mfg")).read_text()
    plane = "result_f32" in text
    subprocess.run([tile, "run", str(FOLDER / (name + ".mfg")),
                    "--in", f"{'input_f32' if plane else 'input_u8'}={photo}",
                    "--out", f"{'result_f32' if plane else 'result_u8'}={out}"],
                   check=True, stdout=subprocess.DEVNULL)
    return text


def section(tile, name, photo, folder):
    out = pathlib.Path(folder) / (name + ".png")
    text = filtered(tile, name, photo, out)
    title = re.search(r'@title "([^"]*)"', text)
    lines = re.search(r"(?:^#(?!:).*\n)+", text, re.M)
    about = " ".join(line.lstrip("# ") for line in lines.group().splitlines()) if lines else ""
    return (f'<section id="{name}"><h2>{html.escape(title.group(1) if title else name)}</h2><p>{html.escape(about)}</p>'
            f'<div class="pair"><figure><img src="{embedded(photo)}"><figcaption>before</figcaption></figure>'
            f'<figure><img src="{embedded(out)}"><figcaption>after: {name}.mfg</figcaption></figure></div>'
            f"<details><summary>Text</summary><pre>{html.escape(text)}</pre></details></section>")


def page(tile, photo, names=()):
    names = names or sorted(path.stem for path in FOLDER.glob("*.mfg"))
    with tempfile.TemporaryDirectory() as folder:
        sections = [section(tile, name, pathlib.Path(photo), folder) for name in names]
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Filters</title><style>{STYLE}</style>'
            f"<h1>Filters</h1>{''.join(sections)}</html>\n")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    tile, photo, out, *names = sys.argv[1:]
    pathlib.Path(out).write_text(page(os.path.abspath(tile), photo, names))


if __name__ == "__main__":
    main()
