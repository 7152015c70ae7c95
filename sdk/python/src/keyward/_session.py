"""A session: a cage that stays, for many commands. It is an object that is handed on, and never found by itself.

No function looks a session up: not by thread, not by task, not in the environment. A call without one is a call in a cage of
its own. A session belongs to the process that made it. It ends with that process.
"""

from __future__ import annotations

import collections
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _door
from ._errors import NotShareable, SessionLost
from ._executable import executable, flags as _flags, trouble

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from ._approvals import Question
    from ._jobs import BackgroundJob
    from ._process import Popen, Words
    from ._tools import Judged, Tools

Approver = Callable[["Question"], Union[bool, Awaitable[bool]]]

#: Sessions of this process: a child of `fork` closes what it has inherited of them.
_all: "weakref.WeakSet[Session]" = weakref.WeakSet()

#: Connections that wait for the next command.
_MOST_IDLE = 16


class Session:
    """A cage that stays.

    ``profile`` and the further keywords are the flags of ``keyward run``. ``on_approval`` is asked when the gate has a
    question about a command; it gets a :class:`Question` and returns ``True`` for yes. Anything else is no: another value, an
    exception, no answer within ``approval_timeout`` seconds. Without it, a command that needs an approval is denied, unless
    another approver is there.
    """

    def __init__(
        self,
        profile: Optional[str] = None,
        *,
        on_approval: Optional[Approver] = None,
        approval_timeout: float = 600,
        name: Optional[str] = None,
        cwd: Union[None, str, "os.PathLike[str]"] = None,
        **flags: Any,
    ) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: List[_door.Connection] = []
        self._owner: Optional[_door.Connection] = None
        self._approvals: Optional[_door.Connection] = None
        self._tools: Optional["Tools"] = None
        self._is_closed = False
        #: What was found in the project, in the words of `keyward run`: the latest hundred.
        self.notices: Deque[str] = collections.deque(maxlen=100)
        self.name = _start_session(profile, name, cwd, flags)
        self._path = _door.find(self.name)
        _all.add(self)
        try:
            self._owner = _door.Connection(self._path)
            _door.greet(self._owner)
            self._owner.request({"do": "own"})
            if on_approval is not None:
                from ._approvals import answer_questions

                self._approvals = answer_questions(self._path, on_approval, approval_timeout)
        except BaseException:
            self.close()
            raise

    # -- commands ----------------------------------------------------------------------------------------------------------

    def popen(self, args: "Words", *given: Any, background: bool = False, **kwargs: Any) -> Any:
        """Starts a command here: a :class:`Popen`, or with ``background=True`` a :class:`BackgroundJob`."""
        self._check()
        if not background:
            from ._process import Popen

            return Popen(args, *given, session=self, **kwargs)
        from ._jobs import start

        return start(self, args, *given, **kwargs)

    def run(self, args: "Words", **kwargs: Any) -> "CompletedProcess[Any]":
        """As :func:`keyward.run`, in this session."""
        from ._process import run

        self._check()
        return run(args, session=self, **kwargs)

    def call(self, args: "Words", **kwargs: Any) -> int:
        """As :func:`keyward.call`, in this session."""
        from ._process import call

        self._check()
        return call(args, session=self, **kwargs)

    def check_call(self, args: "Words", **kwargs: Any) -> int:
        """As :func:`keyward.check_call`, in this session."""
        from ._process import check_call

        self._check()
        return check_call(args, session=self, **kwargs)

    def check_output(self, args: "Words", **kwargs: Any) -> Any:
        """As :func:`keyward.check_output`, in this session."""
        from ._process import check_output

        self._check()
        return check_output(args, session=self, **kwargs)

    def shell(self, line: str, **kwargs: Any) -> "CompletedProcess[Any]":
        """Runs a line of bash that finds directory, variables, functions and options of the last line again."""
        from ._process import run

        self._check()
        return run([line], session=self, line=True, **kwargs)

    async def create_subprocess_exec(self, program: Any, *args: Any, **kwargs: Any) -> Any:
        """As :func:`asyncio.create_subprocess_exec`, in this session."""
        from ._asyncio import create_subprocess_exec

        self._check()
        return await create_subprocess_exec(program, *args, session=self, **kwargs)

    async def create_subprocess_shell(self, cmd: Any, **kwargs: Any) -> Any:
        """As :func:`asyncio.create_subprocess_shell`, in this session."""
        from ._asyncio import create_subprocess_shell

        self._check()
        return await create_subprocess_shell(cmd, session=self, **kwargs)

    # -- host tools --------------------------------------------------------------------------------------------------------

    def tool(
        self,
        name: str,
        fn: Callable[..., Any],
        schema: Optional[Mapping[str, Any]] = None,
        *,
        judged: Optional["Judged"] = None,
    ) -> None:
        """Lets commands that name this tool call ``fn``, with JSON.

        ``schema`` is a JSON Schema of the input. ``judged`` says as what the gate judges each call: ``{"as": "sh",
        "field": "command"}``. What the function returns is passed on without what looks like a credential.
        """
        self._check()
        with self._lock:
            if self._tools is None:
                from ._tools import Tools

                self._tools = Tools(self._path)
        self._tools.add(name, fn, schema, judged)

    # -- the end -----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the session with everything in it. A session that has ended already is no error."""
        if self._pid != os.getpid():
            return self._abandon()
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        if self._owner is not None:
            try:
                self._owner.request({"do": "stop"})
                # The end of the connection is the end of the session.
                while True:
                    received = self._owner.receive(30)
                    if received is None:
                        break
                    if received[0]["is"] == "said":
                        self.notices.append(received[0]["text"])
            except SessionLost:
                pass
        self._close_connections()

    def __enter__(self) -> "Session":
        self._check()
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<keyward.Session %s%s>" % (self.name, " (closed)" if self._is_closed else "")

    def __reduce__(self) -> Any:
        raise NotShareable(
            "a session cannot be handed to another process: it belongs to process %d" % self._pid,
            "make a Session in the process that needs one, or run the command here and hand its result on",
        )

    # -- for the package ---------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise SessionLost(
                "the session belongs to process %d, and this is process %d" % (self._pid, os.getpid()),
                "make a Session in the process that needs one",
            )
        if self._is_closed:
            raise SessionLost("the session is closed", "make another: keyward.Session()")

    def _start(
        self, message: _door.Message, streams: Sequence[int], quietly: bool = False
    ) -> Tuple[_door.Connection, int]:
        """Has a command started; gives the connection that its end is told on, and its number.

        The start of a quiet one is not waited for: its number is 0, and a refusal comes in the place of its end.
        """
        self._check()
        connection = self._take()
        try:
            connection.send({**message, "quiet": True} if quietly else message, streams)
            while not quietly:
                received = connection.receive()
                if received is None:
                    continue
                answer, descriptors = received
                _door.close_all(descriptors)
                if answer["is"] == "started":
                    return connection, answer["job"]
                if answer["is"] == "refused":
                    raise _door.refusal(answer)
                if answer["is"] == "said":
                    self.notices.append(answer["text"])
            return connection, 0
        except BaseException:
            # What was asked for ends with the connection.
            connection.close()
            raise

    def _take(self) -> _door.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _door.Connection(self._path)

    def _give_back(self, connection: _door.Connection, is_clean: bool) -> None:
        if self._pid == os.getpid():
            with self._lock:
                if is_clean and not self._is_closed and len(self._idle) < _MOST_IDLE:
                    self._idle.append(connection)
                    return
        connection.close()

    def _close_connections(self) -> None:
        mine = self._pid == os.getpid()
        tools = None if self._tools is None else self._tools.connection
        for connection in (self._owner, self._approvals, tools):
            if connection is not None and mine:
                connection.end()
            elif connection is not None:
                connection.close()
        while self._idle:
            self._idle.pop().close()

    def _abandon(self) -> None:
        """In a child of fork: closes what was inherited, so that the session still ends with its own process."""
        self._is_closed = True
        self._close_connections()


def _start_session(
    profile: Optional[str], name: Optional[str], cwd: Union[None, str, "os.PathLike[str]"], flags: Dict[str, Any]
) -> str:
    import json
    import subprocess

    # If this process dies before it owns the session, that ends by itself.
    words = [executable(), "session", "start", "--json", "--owned-within", "30s"]
    words += ["--name", name] if name is not None else []
    words += ["--cwd", os.fspath(cwd)] if cwd is not None else []
    words += _flags({"profile": profile, **flags})
    started = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        told: str = json.loads(started.stdout)["session"]
        return told
    except (ValueError, KeyError, TypeError):
        raise _not_started(started.stderr, words[0], started.returncode) from None


def _not_started(told: bytes, path: str, exit: int) -> Exception:
    import json

    from ._process import _trouble

    lines = told.strip().splitlines()
    try:
        return _trouble(json.loads(lines[-1]))
    except (ValueError, KeyError, IndexError, TypeError):
        return trouble(told, path, exit)


def _after_fork() -> None:
    for session in list(_all):
        session._abandon()


os.register_at_fork(after_in_child=_after_fork)
