"""Run docs/tutorial.ipynb and write it again with its outputs: a part of `make docs`."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.ipynb"
CELL_TIMEOUT_S = 200
# Figures as data for the notebook's own plotly, not a copy of its program in each.
RENDERER = {"PLOTLY_RENDERER": "plotly_mimetype"}


def read() -> nbformat.NotebookNode:
    """The tutorial as it is committed."""
    return nbformat.read(TUTORIAL, as_version=4)


def execute(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Run every cell, in an empty folder; raises at the first error of a cell."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with TemporaryDirectory() as folder, patch.dict(os.environ, RENDERER | {"PYTHONPATH": path}):
        client = NotebookClient(
            notebook,
            timeout=CELL_TIMEOUT_S,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
        )
        return client.execute()


def write(notebook: nbformat.NotebookNode) -> None:
    """Keep cells and outputs; nothing of the machine that ran them."""
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec}
    for cell in notebook.cells:
        cell.metadata = {}
    nbformat.write(notebook, TUTORIAL)


def main() -> None:
    """Run and write."""
    write(execute(read()))


if __name__ == "__main__":
    main()
