"""`python -m mynah`: the command."""

import os
import sys

from mynah._command import command


def main() -> None:
    """Becomes the command."""
    path = command()
    os.execv(path, ["mynah", *sys.argv[1:]])


if __name__ == "__main__":
    main()
