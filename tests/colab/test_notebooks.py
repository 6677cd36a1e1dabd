"""The notebooks run from top to bottom; a cell that raises fails the test."""

import base64
import io
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from matplotlib.image import imread
from nbclient import NotebookClient

from tests.data import conftest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "colab").glob("*.ipynb"))
prepare = conftest.prepare


def read(name):
    return nbformat.read(ROOT / "colab" / f"{name}.ipynb", as_version=4)


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Runs a notebook in an empty folder, some of its form fields changed."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # the kernel's: what is tested is this checkout
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))

    def run(name, fields):
        notebook = read(name)
        for field, value in fields.items():
            line = re.compile(rf"^{field} = .*?(?=  # @param)", re.MULTILINE)
            (cell,) = [c for c in notebook.cells if line.search(c.source)]
            cell.source = line.sub(f"{field} = {value!r}", cell.source)
        resources = {"metadata": {"path": str(tmp_path)}}
        NotebookClient(notebook, timeout=600, resources=resources).execute()
        return {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}

    return run


def text(outputs):
    return "".join(output.text for output in outputs if output.output_type == "stream")


def pictures(outputs):
    """The PNG files shown, as arrays (H, W, 4)."""
    files = [o.data["image/png"] for o in outputs if "image/png" in o.get("data", {})]
    return [imread(io.BytesIO(base64.b64decode(file))) for file in files]


def shown(outputs):
    """{cell: number of pictures}, none of them blank."""
    found = {cell: pictures(of_cell) for cell, of_cell in outputs.items()}
    assert all(np.std(picture) > 0.01 for of_cell in found.values() for picture in of_cell)
    return {cell: len(of_cell) for cell, of_cell in found.items() if of_cell}


@pytest.mark.slow
def test_quickstart(execute, prepare):
    prepare("cifar10", train=200)
    outputs = execute("quickstart", {"digits_epochs": 1, "cifar10_epochs": 1})

    assert text(outputs["setup"]) == f"posvit_tf from {ROOT}\n"
    assert "CPU /physical_device:CPU:0" in text(outputs["devices"])
    assert re.search(r"^test accuracy [01]\.\d{4} .* 360 images", text(outputs["digits"]), re.M)
    maps = re.findall(r"block_\d/map +(.*)", text(outputs["load"]))
    assert maps == ["(4, 17, 17)"] * 3
    assert re.search(r"^test accuracy [01]\.\d{4} .* 20 images", text(outputs["cifar10"]), re.M)
    assert shown(outputs) == {"curves": 1, "all-maps": 1, "one-map": 1, "cifar10": 2}

    assert re.search(r"^digit.png\n  [01]\.\d{4}  \d$", text(outputs["export"]), re.M)

    told = text(outputs["tpu"])
    (error,) = re.findall(r"^error: .*", told, re.M)
    assert "strategy=tpu" in error and "no TPU" in error
    assert told.endswith("exit code 2\n")


@pytest.mark.slow
def test_theory(execute):
    outputs = execute("theory", {"name": "tiny", "seeds": 1, "largest_n": 16})

    found = text(outputs["run"])
    assert re.search(r"association exact +100% of seeds", found)
    model, linear = (
        float(re.search(rf"^  {what} +([\d.e-]+)", found, re.M)[1])
        for what in ("test error", "best linear rule's error")
    )
    assert model < linear / 2
    frozen, scratch = (
        float(re.search(rf"^  {method} +([\d.]+)$", text(outputs["transfer"]), re.M)[1])
        for method in ("frozen", "scratch")
    )
    assert frozen < scratch / 2
    cells = ("data", "attention", "position", "traces", "transfer")
    assert shown(outputs) == dict.fromkeys(cells, 1)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and not any(cell.outputs or cell.execution_count for cell in code)


def run_setup(notebook, repository, folder):
    """The first cell in a Python that has no package but its own."""
    (source,) = [cell.source for cell in read(notebook).cells if cell.id == "setup"]
    source = re.sub(r'(?<=^repository = ").*?(?=")', repository, source, flags=re.MULTILINE)
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", source],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_set_up_fails_loudly(path, tmp_path):
    done = run_setup(path.stem, "https://github.com/OWNER/posvit_tf", tmp_path)
    assert done.returncode
    assert "put the address of your copy" in done.stdout
    done = run_setup(path.stem, str(tmp_path / "nowhere"), tmp_path)
    assert done.returncode
    assert f"'{tmp_path}/nowhere' does not exist" in done.stdout
    assert "CalledProcessError" in done.stdout
