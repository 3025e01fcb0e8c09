"""`python -m arrayferry` is the command `arrayferry`."""

from __future__ import annotations

import sys

from arrayferry.cli import main

if __name__ == "__main__":
    sys.exit(main())
