"""What the tests of the Python package share. The package comes from the build tree (PYTHONPATH)."""
import os

os.environ.setdefault("TILE_CACHE", "off")
