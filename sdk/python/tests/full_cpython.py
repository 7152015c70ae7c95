"""CPython's own `test_subprocess`, against this package: every case passes, or stands in `left-out.toml` with its reason.

The list is exact: a case in it that passes is a failure, and so is one that does not exist. It is for the version of Python
that it names; the suite of that version comes from the package `libpython3.11-testsuite` of Debian.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from typing import Any, Dict, List

import keyward

from support import Stage

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.dirname(os.path.dirname(os.path.abspath(keyward.__file__)))
PYTHON = "/usr/bin/python3"


def left_out() -> Any:
    import tomllib  # type: ignore[import-not-found]

    with open(os.path.join(HERE, "left-out.toml"), "rb") as file:
        return tomllib.load(file)


class Suite(Stage):
    told: Dict[str, Dict[str, str]] = {}

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        processes = []
        for mode in ("plain", "session"):
            project = os.path.join(cls.folder, "project-" + mode)
            os.makedirs(os.path.join(project, "tmp"))
            environment = {**os.environ, "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": os.path.join(project, "tmp")}
            words = [PYTHON, os.path.join(HERE, "cpython_subprocess.py"), mode, os.path.join(cls.folder, mode)]
            log = open(os.path.join(cls.folder, mode + ".log"), "wb")
            processes.append((mode, log, subprocess.Popen(words, cwd=project, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)))
        for mode, log, process in processes:
            code = process.wait(600)
            log.close()
            if code:
                with open(log.name, encoding="utf-8", errors="replace") as file:
                    raise RuntimeError("the suite did not run (install libpython3.11-testsuite): %s" % file.read()[-2000:])
            with open(os.path.join(cls.folder, mode), encoding="utf-8") as lines:
                cls.told[mode] = dict(json.loads(line) for line in lines)

    def test_the_list_is_for_this_version(self) -> None:
        version = subprocess.check_output([PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True)
        self.assertEqual(left_out()["python"], version.strip())

    def test_what_fails_is_left_out_and_nothing_else_is(self) -> None:
        cases: List[Any] = left_out()["case"]
        for mode in ("plain", "session"):
            expected = {case["name"] for case in cases if mode in case["where"]}
            failed = {name for name, how in self.told[mode].items() if how.startswith("failed")}
            unexpected = {name: self.told[mode][name] for name in failed - expected}
            self.assertEqual(unexpected, {}, "%s: fails, and is not left out" % mode)
            self.assertEqual(expected - failed, set(), "%s: left out, and passes or does not exist" % mode)
            passed = [name for name, how in self.told[mode].items() if how == "passed"]
            self.assertGreater(len(passed), 230, mode)

    def test_every_case_that_is_left_out_has_a_reason(self) -> None:
        for case in left_out()["case"]:
            self.assertGreater(len(case["reason"]), 20, case)
            self.assertTrue(set(case["where"]) <= {"plain", "session"} and case["where"], case)


if __name__ == "__main__":
    if sys.version_info < (3, 11):
        raise SystemExit("this test needs Python 3.11, for tomllib")
    unittest.main()
