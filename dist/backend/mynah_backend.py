"""Builds the wheel from an sdist: as maturin does, with the command in it.

    pip wheel --config-settings profile=dev SDIST        quicker than `python`, and slower in use
"""

import os
import shutil
import subprocess

import maturin
from maturin import get_requires_for_build_wheel, prepare_metadata_for_build_wheel

__all__ = ["build_wheel", "get_requires_for_build_wheel", "prepare_metadata_for_build_wheel"]

SCRIPTS = "python/mynah_ssd.data/scripts"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    profile = (config_settings or {}).get("profile", "python")
    # In the profile of the extension, so that what both are made of is built once.
    command = ["cargo", "build", "--locked", "--profile", profile, "-p", "mynah", "--bin", "mynah"]
    subprocess.run(command, check=True)
    folder = "debug" if profile == "dev" else profile
    os.makedirs(SCRIPTS, exist_ok=True)
    shutil.copy(os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), folder, "mynah"), SCRIPTS)
    settings = {"build-args": f"--profile {profile} --locked"}
    return maturin.build_wheel(wheel_directory, settings, metadata_directory)
