"""A person at a terminal: tmux, with a program in it that runs as the stage's user."""
import os
import shlex
import subprocess
import time

import stage as stages


class Terminal:
    """A program in tmux. It ends with the value."""

    def __init__(self, stage, argv, env, columns=120, rows=40):
        self.stage, self.socket = stage, str(stage.home / "tmux")
        self.code = stage.home / "exit-code"
        # A Ctrl-C that comes while the program is ending already must not end the shell before it has written the code.
        line = f"trap : INT; {shlex.join(str(word) for word in argv)}; echo $? > {shlex.quote(str(self.code))}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "sh", "-c", line, env=env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server", check=False)

    def tmux(self, *words, env=None, check=True):
        ids = {"user": stages.USER, "group": stages.USER, "extra_groups": []} if os.geteuid() == 0 else {}
        ran = subprocess.run(["tmux", "-S", self.socket, *words], env=self.stage.environment(env, marks=env is not None), cwd=self.stage.project, capture_output=True, text=True, timeout=30, **ids)
        assert not check or ran.returncode == 0, ran
        return ran.stdout

    def screen(self):
        return self.tmux("capture-pane", "-p", check=False)

    def wait_for(self, *texts, timeout=120):
        """Waits until the screen shows one of the texts."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            shown = self.screen()
            if any(text in shown for text in texts):
                return shown
            assert not self.code.exists(), f"it ended with {self.code.read_text()}:\n{shown}"
            time.sleep(0.2)
        raise AssertionError(f"none of {texts} was shown:\n{self.screen()}")

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def press(self, *keys, check=True):
        self.tmux("send-keys", *keys, check=check)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def end(self, timeout=60):
        """Waits for the end, and gives the exit code."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            if self.code.exists() and self.code.read_text().strip():
                return int(self.code.read_text())
            time.sleep(0.1)
        raise AssertionError(f"it did not end:\n{self.screen()}")
