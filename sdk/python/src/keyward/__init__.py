"""Keyward: runs what an AI agent spawns without handing over the user's keys.

The functions of ``subprocess`` and ``asyncio.subprocess``, with every command in a cage. See the page on Python in the
documentation of Keyward.
"""

from __future__ import annotations

# Checkers take it for true. `typing` itself is not imported, because it takes longer than all of this.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from ._approvals import Question
    from ._asyncio import Process, create_subprocess_exec, create_subprocess_shell
    from ._environment import Decision, Dropped, Passed, environ, explain_environ
    from ._errors import (
        Denied,
        Fault,
        KeywardError,
        NotExecutable,
        NotFound,
        NotInstalled,
        NotShareable,
        Refused,
        SessionLost,
        ToolError,
        VersionMismatch,
    )
    from ._homes import profile_home
    from ._jobs import BackgroundJob
    from ._process import (
        DEVNULL,
        PIPE,
        STDOUT,
        CalledProcessError,
        CompletedProcess,
        Popen,
        TimeoutExpired,
        call,
        check_call,
        check_output,
        getoutput,
        getstatusoutput,
        run,
    )
    from ._read import open
    from ._session import Session

__version__ = "0.1.0"

#: Where each name comes from. A module is imported when one of its names is used first, so that the import stays short.
_PLACES = {
    "_approvals": "Question",
    "_asyncio": "Process create_subprocess_exec create_subprocess_shell",
    "_environment": "Decision Dropped Passed environ explain_environ",
    "_errors": "Denied Fault KeywardError NotExecutable NotFound NotInstalled NotShareable Refused SessionLost ToolError"
    " VersionMismatch",
    "_homes": "profile_home",
    "_jobs": "BackgroundJob",
    "_process": "DEVNULL PIPE STDOUT CalledProcessError CompletedProcess Popen TimeoutExpired call check_call check_output"
    " getoutput getstatusoutput run",
    "_read": "open",
    "_session": "Session",
}
_MODULE = {name: module for module, names in _PLACES.items() for name in names.split()}

__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "BackgroundJob",
    "CalledProcessError",
    "CompletedProcess",
    "Decision",
    "Denied",
    "Dropped",
    "Fault",
    "KeywardError",
    "NotExecutable",
    "NotFound",
    "NotInstalled",
    "NotShareable",
    "Passed",
    "Popen",
    "Process",
    "Question",
    "Refused",
    "Session",
    "SessionLost",
    "TimeoutExpired",
    "ToolError",
    "VersionMismatch",
    "call",
    "check_call",
    "check_output",
    "create_subprocess_exec",
    "create_subprocess_shell",
    "environ",
    "explain_environ",
    "getoutput",
    "getstatusoutput",
    "open",
    "profile_home",
    "run",
]


def __getattr__(name: str) -> object:
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    import importlib

    value: object = getattr(importlib.import_module("." + module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted(__all__)
