"""Background jobs of a session: they go on without a client, and the session keeps their output."""

from __future__ import annotations

import os
import time
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any, Iterable, Optional

from . import _door
from ._errors import Refused

if TYPE_CHECKING:
    from ._session import Session


class BackgroundJob:
    """A command that the session looks after. It ends with the session."""

    def __init__(self, session: "Session", number: int, args: Any) -> None:
        self._session = session
        #: The number of the job: `keyward logs SESSION/JOB` shows the same output.
        self.job = number
        self.args = args
        self.returncode: Optional[int] = None

    def __repr__(self) -> str:
        return "<keyward.BackgroundJob %s/%d %r>" % (self._session.name, self.job, self.args)

    def _request(self, message: _door.Message) -> Any:
        self._session._check()
        connection = self._session._take()
        try:
            answer = connection.request(message)
        except BaseException:
            connection.close()
            raise
        self._session._give_back(connection, is_clean=True)
        return answer

    def poll(self) -> Optional[int]:
        """The code of the command; ``None`` as long as it runs."""
        if self.returncode is None:
            jobs = self._request({"do": "jobs"})[0]["jobs"]
            found = next((job for job in jobs if job["job"] == self.job), None)
            if found is not None:
                self.returncode = found["exit"]
        return self.returncode

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits for the end of the command."""
        until = None if timeout is None else time.monotonic() + timeout
        delay = 0.005
        while self.poll() is None:
            if until is not None and time.monotonic() >= until:
                raise TimeoutExpired(self.args, timeout or 0)
            time.sleep(delay)
            delay = min(delay * 2, 0.1)
        assert self.returncode is not None
        return self.returncode

    def output(self) -> bytes:
        """What the command has printed until now: the first 16 MiB."""
        _, descriptors = self._request({"do": "log", "job": self.job})
        with os.fdopen(descriptors[0], "rb") as file:
            return file.read()

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            self._request({"do": "signal", "job": self.job, "signal": int(sig)})

    def terminate(self) -> None:
        self.send_signal(15)

    def kill(self) -> None:
        """Ends the command with everything that it has started."""
        if self.poll() is None:
            self._request({"do": "kill", "job": self.job})


def start(
    session: "Session",
    args: Any,
    *,
    shell: bool = False,
    executable: Any = None,
    cwd: Any = None,
    env: Any = None,
    fresh: bool = False,
    tools: Iterable[str] = (),
    **more: Any,
) -> BackgroundJob:
    """Starts a background job. Its streams are the session's."""
    from ._process import _Wish

    if more:
        raise Refused(
            "%s: the streams of a background job are the session's" % ", ".join(more),
            "leave it out; output() gives what the job has printed",
            code="usage",
        )
    wish = _Wish(args, executable, shell, env, {}, fresh, tuple(tools), False)
    connection, number = session._start({**wish.for_a_session(cwd), "background": True}, ())
    session._give_back(connection, is_clean=True)
    return BackgroundJob(session, number, args)
