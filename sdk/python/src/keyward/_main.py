"""The commands that the wheel puts on PATH: each becomes the executable of the same name in this package."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def _become(name: str) -> NoReturn:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    os.execv(path, [name, *sys.argv[1:]])


def keyward() -> NoReturn:
    _become("keyward")


def keyward_services() -> NoReturn:
    _become("keyward-services")
