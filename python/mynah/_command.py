"""The command `mynah`, which is in the wheel."""

from __future__ import annotations

import os
import sysconfig
from functools import cache
from importlib import metadata

from mynah._errors import UsageError


@cache
def command() -> str:
    """The path of the command that was installed with this package."""
    places = []
    try:
        files = metadata.files("mynah-ssd") or []
        places = [str(file.locate()) for file in files if file.name == "mynah"]
    except metadata.PackageNotFoundError:
        pass
    places.append(os.path.join(sysconfig.get_path("scripts"), "mynah"))
    for place in places:
        place = os.path.realpath(place)
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    raise UsageError(
        "the command `mynah` is not where it is installed with the package: "
        f"{', '.join(places)}; install the wheel of mynah-ssd"
    )
