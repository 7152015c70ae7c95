"""Finds the executable of Keyward, and compares its version. Nothing is ever run without it."""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict, List, Optional, Tuple

from ._errors import Fault, KeywardError, NotInstalled, Refused, VersionMismatch

#: The version of the session protocol that this package speaks.
PROTOCOL = 1

_INSTALL = "install it: `pip install keyward`, or put the executable on PATH, or set KEYWARD_EXECUTABLE to its path"

#: Executables that were compared, by path, device, inode and time of change.
_compared: Dict[Tuple[str, int, int, int], bool] = {}


def executable() -> str:
    """The executable: that of KEYWARD_EXECUTABLE, else the one in this package, else the one of PATH."""
    path = _find()
    found = os.stat(path)
    mark = (path, found.st_dev, found.st_ino, found.st_mtime_ns)
    if mark not in _compared:
        _compare(path)
        _compared[mark] = True
    return path


def _find() -> str:
    named = os.environ.get("KEYWARD_EXECUTABLE")
    if named:
        if os.path.isabs(named) and _is_program(named):
            return named
        raise NotInstalled("KEYWARD_EXECUTABLE does not name an executable by its whole path", _INSTALL)
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "keyward")
    if _is_program(beside):
        return beside
    found = shutil.which("keyward")
    if found is None:
        raise NotInstalled("the executable of Keyward is not installed", _INSTALL)
    return os.path.abspath(found)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _compare(path: str) -> None:
    import json
    import subprocess

    try:
        told = subprocess.run(
            [path, "version", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=30,
        )
        protocol = json.loads(told.stdout)["protocol"]
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired):
        raise VersionMismatch(
            "%s does not say which protocol it speaks" % path, "install the version of this package: %s" % _INSTALL
        ) from None
    if protocol != PROTOCOL:
        raise VersionMismatch(
            "%s speaks version %s of the protocol, and this package version %d" % (path, protocol, PROTOCOL),
            "install the same version of both: %s" % _INSTALL,
        )


#: The flags of ``keyward run``, by the names that the functions here take.
FLAGS: Dict[str, Tuple[str, type]] = {
    "profile": ("--profile", str),
    "trust": ("--trust", str),
    "floor": ("--floor", str),
    "allow": ("--allow", list),
    "gpu": ("--gpu", bool),
    "pass_": ("--pass", list),
    "set_env": ("--env", dict),
    "inherit_credentials": ("--inherit-credentials", list),
    "secrets": ("--secret", dict),
    "redact": ("--redact", str),
    "read": ("--read", list),
    "write": ("--write", list),
    "hide": ("--hide", list),
    "show": ("--show", list),
    "protect": ("--protect", str),
    "home": ("--home", str),
    "tool_logins": ("--tool", list),
    "shims": ("--shims", bool),
    "net": ("--net", str),
    "allow_net": ("--allow-net", list),
    "reach": ("--reach", list),
    "publish": ("--publish", list),
    "gate": ("--gate", str),
    "wall": ("--timeout", float),
    "memory": ("--memory", str),
    "pids": ("--pids", int),
}


def flags(given: Dict[str, Any]) -> List[str]:
    """The words for ``keyward run`` and ``keyward session start``."""
    words: List[str] = []
    for name, value in given.items():
        if name not in FLAGS:
            raise TypeError("unexpected keyword argument %r; flags are %s" % (name, ", ".join(FLAGS)))
        flag, kind = FLAGS[name]
        if value is None or value is False:
            continue
        if kind is bool:
            words.append(flag)
        elif kind is list:
            if isinstance(value, str):
                raise TypeError("%s takes a list of strings, not one string" % name)
            words += [word for one in value for word in (flag, str(one) if isinstance(one, int) else os.fspath(one))]
        elif kind is dict:
            words += [word for key, one in value.items() for word in (flag, "%s=%s" % (key, one))]
        elif kind is float:
            words += [flag, "%dms" % round(float(value) * 1000)]
        else:
            words += [flag, str(value)]
    return words


def trouble(told: Optional[bytes], path: str, exit: int) -> KeywardError:
    """What a failed command of the executable has said. With 120 it did not take its arguments."""
    lines = (told or b"").decode("utf-8", "replace").strip().splitlines()
    fact = lines[0] if lines else "%s has failed" % path
    for start in ("keyward: ", "error: "):
        fact = fact[len(start) :] if fact.startswith(start) else fact
    remedy = "\n".join(lines[1:])
    if exit == 120:
        return Refused(fact, remedy or "`keyward help run` lists the flags, and what each takes", code="usage")
    return Fault(fact, remedy or "`keyward doctor` shows what this host can do")
