"""What the tests share: the executable under test, and a HOME and a project of their own."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import unittest
from typing import Dict

#: The executable that is tested. `sdk/python/test` sets it.
EXECUTABLE = os.environ.get("KEYWARD_TEST_EXECUTABLE", "")

SDK = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: A command that the gate asks about, once :meth:`Stage.work` was called.
ASKED = ["rm", "-rf", "work"]

REPOSITORY = os.path.dirname(SDK)


class Stage(unittest.TestCase):
    """A test in a project of its own, with a HOME of its own: the policy and the record of the user are not touched."""

    folder: str
    _before: Dict[str, str]
    _cwd: str

    @classmethod
    def setUpClass(cls) -> None:
        if not EXECUTABLE:
            raise RuntimeError("KEYWARD_TEST_EXECUTABLE must name the executable under test")
        # A shell starts background jobs with the interrupt ignored, and what is ignored stays so in every command.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        # Not below /tmp, which is another one in a cage.
        cls.folder = os.path.realpath(tempfile.mkdtemp(prefix="keyward-sdk-", dir="/var/tmp"))
        cls._before = dict(os.environ)
        cls._cwd = os.getcwd()
        for part in ("home", "project", "run"):
            os.mkdir(os.path.join(cls.folder, part), 0o700)
        os.environ.update(
            HOME=cls.home(),
            XDG_RUNTIME_DIR=os.path.join(cls.folder, "run"),
            KEYWARD_EXECUTABLE=EXECUTABLE,
        )
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            os.environ.pop(name, None)
        os.chdir(cls.project())

    @classmethod
    def tearDownClass(cls) -> None:
        os.chdir(cls._cwd)
        os.environ.clear()
        os.environ.update(cls._before)
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def home(cls) -> str:
        return os.path.join(cls.folder, "home")

    @classmethod
    def project(cls) -> str:
        return os.path.join(cls.folder, "project")

    @classmethod
    def work(cls) -> None:
        """Makes a directory whose deletion the gate asks about: no repository has it."""
        os.makedirs(os.path.join(cls.project(), "work"), exist_ok=True)
        with open(os.path.join(cls.project(), "work", "draft.txt"), "w", encoding="utf-8") as file:
            file.write("not kept anywhere else\n")

    @classmethod
    def policy(cls, text: str) -> None:
        """Writes the policy of the test's user."""
        folder = os.path.join(cls.home(), ".config", "keyward")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "policy.toml"), "w", encoding="utf-8") as file:
            file.write("version = 1\n" + text)
