"""What is missing to build the wheel is said before anything is built."""

from __future__ import annotations

import os
import shutil
import subprocess

from conftest import ROOT


def build(path, **more):
    environment = {**os.environ, "PATH": str(path), **more}
    said = [shutil.which("sh"), str(ROOT / "python/build"), "dev", str(path / "wheels")]
    done = subprocess.run(said, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and not (path / "wheels").exists(), done
    return done.stderr


def test_what_is_missing_is_said_with_how_to_get_it(tmp_path):
    for tool in ("sh", "dirname", "grep"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    said = build(tmp_path)
    for missing in ("cargo", "python3", "maturin", "strip", "cc"):
        assert f"\n  {missing}" in said
    assert "pip install" in said and "apt-get install gcc" in said
    for tool, version in (("cargo", "cargo 1.95.0"), ("maturin", "maturin 1.9.6"), ("strip", ""), ("cc", "")):
        (tmp_path / tool).write_text(f"#!{shutil.which('sh')}\necho {version}\n")
        (tmp_path / tool).chmod(0o755)
    (tmp_path / "python3").symlink_to(shutil.which("python3"))
    said = build(tmp_path, MYNAH_COMMAND="/nowhere/mynah")
    assert "maturin, 1.16 or later" in said and "/nowhere/mynah" in said and "cargo," not in said
