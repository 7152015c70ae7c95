"""A HOME per profile, for children that the caller spawns itself.

Pure Python over the tool table of the registry. In a cage the launcher shows logins by mounts; here they are links, so that
a child can do with a login what the user can. The directories are apart from those of the launcher.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple, Union

from ._errors import Refused
from ._registry import platform_here, registry

KEYCHAINS = "Library/Keychains"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def profile_home(
    name: str,
    *,
    tools: Iterable[str] = (),
    share: Iterable[str] = (),
    trust: str = "executor",
    home: Union[None, str, "os.PathLike[str]"] = None,
    state: Union[None, str, "os.PathLike[str]"] = None,
    environ: Optional[Mapping[str, str]] = None,
    platform: Optional[str] = None,
) -> str:
    """Makes the HOME of a profile if it is not there, and returns its path.

    ``tools`` names the tools whose logins it has, such as ``gh``; ``share`` those of which sessions and settings are there
    as well. Each is a link to the file of your own HOME. What the profile's HOME already has itself is never replaced. On
    macOS ``Library/Keychains`` leads to the real one for the classes ``executor`` and ``internal``.

    Use it as ``keyward.environ(home=keyward.profile_home("builder", tools=["gh"]))``.
    """
    if not _NAME.match(name):
        raise Refused(
            "invalid profile name",
            "use letters, digits, `.`, `_` and `-`, at most 64 of them",
            code="usage",
        )
    variables = os.environ if environ is None else environ
    here = platform or platform_here()
    real = os.fspath(home) if home is not None else _real_home(variables, here)
    wanted = _wanted(tools, share, trust, here)
    folder = os.fspath(state) if state is not None else _state(variables, real, here)
    at = os.path.join(folder, "plain-homes", name, trust)
    _make_private(folder, ["plain-homes", name, trust])
    if here == "windows":
        return at
    asked = {path: _outside(row, real, variables) for path, row in wanted.items() if not row["runtime"]}
    if here == "macos" and trust in registry().may_inherit:
        asked[KEYCHAINS] = os.path.join(real, KEYCHAINS)
    for path, row in _all_exposures(here):
        if path not in asked and not row["runtime"]:
            _drop_link(at, path, _outside(row, real, variables))
    for path, target in asked.items():
        if os.path.exists(target):
            _link(at, path, target)
    return at


def _wanted(tools: Iterable[str], share: Iterable[str], trust: str, here: str) -> Dict[str, Dict[str, Any]]:
    tables = registry()
    if isinstance(tools, str) or isinstance(share, str):
        raise TypeError("give a list of tools, not one string")
    shared = list(share)
    names = list(tools) + shared
    if trust not in ("internal", "executor", "tool", "unknown"):
        raise ValueError("trust is 'internal', 'executor', 'tool' or 'unknown'")
    if names and trust not in tables.may_inherit:
        raise Refused(
            "a login is not shown to a child of class `%s`" % trust,
            "leave the tools out, or use the class `executor`",
            rule="home.tools",
        )
    found: Dict[str, Dict[str, Any]] = {}
    for tool in names:
        row = tables.tools.get(tool)
        if row is None or here not in row:
            raise Refused(
                "the tool %r is not known on %s" % (tool, here),
                "`keyward home tools` lists the tools",
                code="usage",
            )
        for exposure in row[here]["login"] + (row[here]["share"] if tool in shared else []):
            found[exposure["path"]] = exposure
    return found


def _all_exposures(here: str) -> Iterator[Tuple[str, Dict[str, Any]]]:
    for row in registry().tools.values():
        for exposure in row[here]["login"] + row[here]["share"]:
            yield exposure["path"], exposure


def _real_home(variables: Mapping[str, str], here: str) -> str:
    if here == "windows":
        return variables.get("USERPROFILE") or os.path.expanduser("~")
    found = variables.get("HOME", "")
    return found if found.startswith("/") else os.path.expanduser("~")


def _state(variables: Mapping[str, str], real: str, here: str) -> str:
    if here == "windows":
        return os.path.join(variables.get("LOCALAPPDATA") or os.path.join(real, "AppData", "Local"), "keyward")
    moved = variables.get("XDG_STATE_HOME", "")
    if moved.startswith("/"):
        return os.path.join(moved, "keyward")
    if here == "macos":
        return os.path.join(real, "Library/Application Support/keyward")
    return os.path.join(real, ".local/state/keyward")


def _outside(exposure: Mapping[str, Any], real: str, variables: Mapping[str, str]) -> str:
    """Where something of a tool is: variables may have moved it."""
    bases = {
        "XDG_CONFIG_HOME": ".config/",
        "XDG_DATA_HOME": ".local/share/",
        "XDG_STATE_HOME": ".local/state/",
        "XDG_CACHE_HOME": ".cache/",
    }
    path: str = exposure["path"]
    variable = exposure["moved_by"]
    moved = variables.get(variable, "") if variable else ""
    if moved.startswith("/"):
        return os.path.join(moved, path[len(bases[variable]) :])
    return os.path.join(real, path)


def _make_private(folder: str, parts: List[str]) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = folder
    for part in parts:
        path = os.path.join(path, part)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode):
            raise Refused("%s is not a directory" % path, "remove it, and call again")
        if hasattr(os, "getuid") and found.st_uid != os.getuid():
            raise Refused("%s belongs to another user" % path, "remove it, and call again")
        if hasattr(os, "getuid") and stat.S_IMODE(found.st_mode) & 0o077:
            os.chmod(path, 0o700)


def _above(home: str, path: str, make: bool) -> Optional[int]:
    """Opens the directory above a path below the HOME. A child may have put links there: none is followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(home, flags)
    for part in path.split("/")[:-1]:
        try:
            if make:
                try:
                    os.mkdir(part, 0o700, dir_fd=at)
                except FileExistsError:
                    pass
            below = os.open(part, flags, dir_fd=at)
        except OSError:
            return None
        finally:
            os.close(at)
        at = below
    return at


def _link(home: str, path: str, target: str) -> None:
    above = _above(home, path, make=True)
    if above is None:
        return
    name = path.rsplit("/", 1)[-1]
    try:
        leads = _leads(name, above)
        if leads is not None and leads != target and not os.path.exists(os.path.join(home, path)):
            os.unlink(name, dir_fd=above)
        os.symlink(target, name, dir_fd=above)
    except FileExistsError:
        pass
    finally:
        os.close(above)


def _drop_link(home: str, path: str, target: str) -> None:
    """Takes a login away that an earlier call has shown. Only a link to the real one goes."""
    above = _above(home, path, make=False)
    if above is None:
        return
    name = path.rsplit("/", 1)[-1]
    try:
        if _leads(name, above) == target:
            os.unlink(name, dir_fd=above)
    finally:
        os.close(above)


def _leads(name: str, above: int) -> Optional[str]:
    try:
        return os.readlink(name, dir_fd=above)
    except OSError:
        return None
