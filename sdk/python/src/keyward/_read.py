"""The guarded read: a file, unless it holds a credential."""

from __future__ import annotations

import io
import json
import os
import subprocess
from typing import Any, Optional, Union

from ._executable import executable, trouble
from ._process import _trouble


def open(
    file: Union[str, "os.PathLike[str]"],
    mode: str = "r",
    *,
    encoding: Optional[str] = None,
    errors: Optional[str] = None,
    newline: Optional[str] = None,
    max: Optional[str] = None,
) -> Any:
    """Opens a file for reading, as ``open()`` does, unless it holds a credential: then it raises :class:`Refused`.

    ``max`` is the most that is read, such as ``"64K"``.
    """
    if mode not in ("r", "rt", "rb"):
        raise ValueError("the guarded read only reads: the mode is 'r', 'rt' or 'rb'")
    program = executable()
    words = [program, "read", "--json"] + (["--max", max] if max is not None else []) + ["--", os.fspath(file)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        try:
            told = json.loads(lines[-1])
            raise _trouble({"outcome": "refused", "exit": done.returncode, **told})
        except (ValueError, IndexError, KeyError, TypeError):
            raise trouble(done.stderr, program, done.returncode) from None
    data = io.BytesIO(done.stdout)
    return data if mode == "rb" else io.TextIOWrapper(data, encoding or "utf-8", errors, newline)
