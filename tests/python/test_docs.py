"""The blocks of code in the documents run, each document's in order."""

from __future__ import annotations

import re
import warnings

import pytest

from conftest import ROOT

pytest_plugins = ["pytester"]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)


@pytest.mark.parametrize("path", ["docs/python.md", "python/README.md", "README.md"])
def test_blocks_run(path, tmp_path, monkeypatch, pytester):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / path).read_text()
    blocks = [(text[: m.start()].count("\n") + 2, m[1]) for m in BLOCK.finditer(text)]
    assert blocks
    names: dict[str, object] = {}
    for line, block in blocks:
        if "mynah_serve" in block:
            path_of_block = pytester.makepyfile(test_block=block)
            pytester.runpytest_subprocess(path_of_block).assert_outcomes(passed=block.count("def test_"))
            continue
        code = compile("\n" * (line - 1) + block, str(ROOT / path), "exec")
        with warnings.catch_warnings():
            # A machine that is busy is late.
            warnings.simplefilter("ignore")
            exec(code, names)


def test_every_name_is_documented():
    import mynah

    text = (ROOT / "docs/python.md").read_text()
    missing = [name for name in mynah.__all__ if name not in text]
    assert not missing
