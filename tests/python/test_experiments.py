"""The experiments in experiments/python run, with few requests."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from conftest import ROOT

pytestmark = pytest.mark.long
FOLDER = ROOT / "experiments/python"


def said(folder, name, *options):
    done = subprocess.run([sys.executable, FOLDER / name, *options], cwd=folder, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_are_tested():
    named = {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".ipynb")}
    assert named == {"optimise.py", "learned_policy.py", "figure.py", "report.ipynb"}
    readme = (FOLDER / "README.md").read_text()
    assert all(f"]({name})" in readme for name in named)


def test_optimise(tmp_path):
    pytest.importorskip("optuna")
    first = said(tmp_path, "optimise.py", "--trials=6", "--ios=400")
    assert re.match(r"6 trials, [1-6] of them run", first) and "write amplification" in first
    # The same search again: nothing runs.
    again = said(tmp_path, "optimise.py", "--trials=6", "--ios=400")
    assert again.startswith("6 trials, 0 of them run") and again.splitlines()[1:] == first.splitlines()[1:]


def test_a_learned_policy(tmp_path):
    text = said(tmp_path, "learned_policy.py", "--rounds=20", "--round-us=1000")
    rows = text.splitlines()
    assert [row.split(" of rounds")[0].rsplit(maxsplit=1)[0] for row in rows] == [
        *(f"depth {depth}" for depth in (0, 1, 2, 4, 8, 16, 32)), "learned",
    ]
    written = [float(re.search(r"([\d.]+) MiB/s", row)[1]) for row in rows]
    assert written[0] == 0 < written[1] <= written[6]
    assert said(tmp_path, "learned_policy.py", "--rounds=20", "--round-us=1000") == text


def test_a_figure(tmp_path):
    pytest.importorskip("matplotlib")
    text = said(tmp_path, "figure.py", "--ios=200", "--keys=20k", "--out=f.svg")
    assert "1 request manager: 1 " in text and "8 request managers: 1 " in text
    assert "<svg" in (tmp_path / "f.svg").read_text()


@pytest.mark.filterwarnings("default")
def test_a_notebook_shows_the_report(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.read(FOLDER / "report.ipynb", as_version=4)
    nbformat.validate(book)
    # The kernel is this Python, whatever kernels there are besides.
    client = nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    client.execute()
    (shown,) = [out for cell in book.cells if cell.get("id") == "report" for out in cell.outputs]
    assert shown.data["text/html"].startswith("<iframe") and "&lt;svg" in shown.data["text/html"]
    assert shown.data["text/plain"] == "<Result of mqsim: 3000 requests>"
    (number,) = [out for cell in book.cells if cell.get("id") == "number" for out in cell.outputs]
    assert re.fullmatch(r"[\d.]+ ns\n", number.text)
