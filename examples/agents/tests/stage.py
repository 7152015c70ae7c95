"""A throw-away HOME and project, with a key that no command may see."""

import os
import tempfile
import unittest

EXECUTABLE = os.environ["KEYWARD_TEST_EXECUTABLE"]


class Stage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.home, cls.project = (os.path.join(cls.folder.name, name) for name in ("home", "project"))
        for path in (cls.home, cls.project, os.path.join(cls.folder.name, "run"), os.path.join(cls.home, ".ssh")):
            os.mkdir(path, 0o700)
        cls.key = os.path.join(cls.home, ".ssh", "id_ed25519")
        with open(cls.key, "w") as file:
            file.write("canary of the stage\n")
        os.environ.update(
            HOME=cls.home, XDG_RUNTIME_DIR=os.path.join(cls.folder.name, "run"), KEYWARD_EXECUTABLE=EXECUTABLE,
            OPENAI_API_KEY="sk-canary-0123456789abcdefghijkl", OPENAI_AGENTS_DISABLE_TRACING="1",
        )
        before = os.getcwd()
        os.chdir(cls.project)
        cls.addClassCleanup(os.chdir, before)
