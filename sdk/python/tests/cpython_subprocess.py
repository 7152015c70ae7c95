"""Runs CPython's own `test_subprocess` against this package, and writes what became of each case, one line of JSON each.

    cpython_subprocess.py plain|session RESULTS [CASE...]


Not a test by itself: `full_cpython.py` runs it, without a session and in one, and compares with `left-out.toml`.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import types
import unittest
from typing import Any, Dict, List, Optional

import keyward

#: What is not about starting commands: Windows, and the names of the module itself.
NOT_ABOUT_COMMANDS = ("Win32ProcessTestCase", "CommandsWithSpaces", "MiscTests")


class TooLong(Exception):
    """Not a TimeoutError, which is an error of the system that the code under test may handle."""


def shim(session: Optional[keyward.Session]) -> types.ModuleType:
    """`subprocess`, with the functions and the class of this package in place of its own."""
    made = types.ModuleType("subprocess")
    made.__dict__.update(subprocess.__dict__)
    where: Dict[str, Any] = {"gate": "yolo"} if session is None else {"session": session}

    class Popen(keyward.Popen):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**where, **kwargs})

    from keyward import _process

    _process.Popen = Popen  # type: ignore[misc]
    made.__dict__["Popen"] = Popen
    for name in ("run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"):
        made.__dict__[name] = getattr(_process, name)
    return made


class Results(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self.told: Dict[str, str] = {}

    def name(self, test: Any) -> str:
        test = getattr(test, "test_case", test)
        return "%s.%s" % (type(test).__name__, getattr(test, "_testMethodName", "?"))

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        # Again and again: what cleans up may wait as well.
        signal.setitimer(signal.ITIMER_REAL, 60, 1)

    def stopTest(self, test: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        name = self.name(test)
        with open(sys.argv[2], "a", encoding="utf-8") as file:
            file.write(json.dumps([name, self.told.get(name, "failed: no result")]) + "\n")
        super().stopTest(test)

    def addSuccess(self, test: Any) -> None:
        self.told.setdefault(self.name(test), "passed")

    def addFailure(self, test: Any, err: Any) -> None:
        self.told[self.name(test)] = "failed: %s" % str(err[1])[-300:]

    def addError(self, test: Any, err: Any) -> None:
        self.told[self.name(test)] = "failed: %s: %s" % (err[0].__name__, str(err[1])[-300:])

    def addSkip(self, test: Any, reason: str) -> None:
        self.told[self.name(test)] = "skipped: %s" % reason

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.addError(test, err)


def cases(suite: Any) -> List[Any]:
    return [case for one in suite for case in (cases(one) if isinstance(one, unittest.TestSuite) else [one])]


def main() -> None:
    def too_long(*_: Any) -> None:
        raise TooLong("it took longer than 60 seconds")

    signal.signal(signal.SIGALRM, too_long)
    session = keyward.Session(gate="yolo") if sys.argv[1] == "session" else None
    module = importlib.import_module("test.test_subprocess")
    module.__dict__["subprocess"] = shim(session)
    wanted = sys.argv[3:]
    results = Results()
    for case in cases(unittest.defaultTestLoader.loadTestsFromModule(module)):
        name = results.name(case)
        if type(case).__name__ in NOT_ABOUT_COMMANDS or (wanted and name not in wanted):
            continue
        case.run(results)
    if session is not None:
        session.close()


if __name__ == "__main__":
    main()
