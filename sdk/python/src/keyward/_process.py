"""``Popen``, ``run`` and their like: the shapes of ``subprocess``, with every command in a cage.

Without a session a call runs ``keyward run``. With one it sends a message to the session, with the three streams beside it.
Everything else (pipes, text, ``communicate``, the context manager) is that of ``subprocess``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal as _signal
import subprocess
import sys
import threading
import time
from subprocess import DEVNULL, PIPE, STDOUT, CalledProcessError, CompletedProcess, TimeoutExpired
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import Denied, Fault, KeywardError, NotExecutable, NotFound, Refused
from ._executable import executable as _executable
from ._executable import flags as _flags

if TYPE_CHECKING:
    from ._door import Connection, Message
    from .protocol import Answer, AnswerRefused
    from ._session import Session

    _Popen = subprocess.Popen[Any]
else:
    _Popen = subprocess.Popen

Words = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]", Sequence[Any]]

#: Beyond every number that a kernel gives a process: a signal to it by ``os.kill`` reaches nothing.
_NO_PID = 1 << 30

#: The code of a launcher that did not take its arguments.
_USAGE = 120

#: What the launcher itself needs of the caller's environment. None of it reaches a command: a cage has its own.
_FOR_THE_LAUNCHER = (
    "HOME",
    "PATH",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
)

_REFUSED = {
    "preexec_fn": "a function of this process cannot run in the cage",
    "user": "a cage has one user",
    "group": "a cage has one user",
    "extra_groups": "a cage has one user",
}


class Popen(_Popen):
    """A command in a cage, with the methods of :class:`subprocess.Popen`.

    Further keywords are the flags of ``keyward run``, such as ``net="open"``. ``session`` is the session to run in; there
    ``fresh`` asks for a cage of its own, and ``tools`` names the host tools that may be called while it runs. In a session a
    denial is raised here; without one, by the first of ``wait``, ``poll`` and ``communicate`` that sees the end.
    """

    def __init__(
        self,
        args: Words,
        bufsize: int = -1,
        executable: Any = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        preexec_fn: Any = None,
        close_fds: bool = True,
        shell: bool = False,
        cwd: Any = None,
        env: Optional[Mapping[Any, Any]] = None,
        universal_newlines: Optional[bool] = None,
        startupinfo: Any = None,
        creationflags: int = 0,
        restore_signals: bool = True,
        start_new_session: bool = False,
        pass_fds: Sequence[int] = (),
        *,
        user: Any = None,
        group: Any = None,
        extra_groups: Any = None,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        text: Optional[bool] = None,
        umask: int = -1,
        pipesize: int = -1,
        process_group: Optional[int] = None,
        session: Optional["Session"] = None,
        fresh: bool = False,
        tools: Iterable[str] = (),
        line: bool = False,
        _quietly: bool = False,
        **flags: Any,
    ) -> None:
        # Set first: `__del__` looks at them whatever happens below.
        self._session = session
        self._connection: Optional["Connection"] = None
        self._job = 0
        self._code = 0
        self._unanswered = 0
        #: Whether the session does not tell of the start. Then a refusal comes in the place of the end.
        self._is_quiet = _quietly
        self._outcome = -1
        self._trouble: Optional[KeywardError] = None
        self._relays: List[threading.Thread] = []
        #: The limit that ended the command: ``wall``, ``cpu`` or another.
        self.limit: Optional[str] = None
        self.returncode: Any = None
        self._child_created = False
        _refuse_what_leads_out(locals())
        if session is None and (fresh or line or tuple(tools)):
            raise TypeError("fresh, line and tools are for a command of a session")
        if session is not None and flags:
            raise Refused(
                "%s: what a command of a session may do is decided when the session starts" % ", ".join(flags),
                "give it to keyward.Session(), or run the command without a session",
                code="usage",
            )
        self._wish = _Wish(args, executable, shell, env, flags, fresh, tuple(tools), line)
        more: Dict[str, Any] = {"pipesize": pipesize} if sys.version_info >= (3, 10) else {}
        super().__init__(
            args,
            bufsize=bufsize,
            executable=executable,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            close_fds=True,
            shell=shell,
            cwd=cwd,
            universal_newlines=universal_newlines,
            startupinfo=startupinfo,
            creationflags=creationflags,
            restore_signals=restore_signals,
            start_new_session=start_new_session,
            encoding=encoding,
            errors=errors,
            text=text,
            **more,
        )

    # -- the start ---------------------------------------------------------------------------------------------------------

    def _execute_child(self, *given: Any) -> None:
        cwd, pipes = given[5], given[10:16]
        if self._session is None:
            self._start_launcher(list(given), cwd)
        else:
            self._start_in_session(self._session, cwd, pipes)

    def _start_launcher(self, given: List[Any], cwd: Any) -> None:
        """Has ``subprocess`` start ``keyward run``, which writes the outcome into memory that both of us see."""
        made = os.memfd_create("keyward-outcome", os.MFD_CLOEXEC)
        try:
            # Not one of the three streams, which may be closed here.
            self._outcome = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, 3)
        finally:
            os.close(made)
        argv, environment, flags = self._wish.for_the_launcher()
        words = [_executable(), "run", "--quiet", "--outcome-fd", str(self._outcome), *flags, "--", *argv]
        given[0], given[1], given[3], given[4] = words, None, True, (self._outcome,)
        given[6], given[9] = environment, False
        try:
            super()._execute_child(*given)  # type: ignore[misc]
        except BaseException:
            self._forget_outcome()
            raise

    def _start_in_session(self, session: "Session", cwd: Any, pipes: Sequence[int]) -> None:
        message = self._wish.for_a_session(cwd)
        if cwd is not None and not os.path.isdir(cwd):
            os.stat(cwd)
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), cwd)
        streams, own = self._streams([pipes[0], pipes[3], pipes[5]])
        try:
            self._connection, self._job = session._start(message, streams, self._is_quiet)
        except (NotFound, NotExecutable) as error:
            error.filename = os.fsdecode(self._wish.argv[0])
            raise
        finally:
            for descriptor in own:
                os.close(descriptor)
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = _NO_PID + self._job
        self._child_created = True

    def _streams(self, wanted: Sequence[int]) -> Tuple[List[int], List[int]]:
        """The descriptors that are sent, and those of them that are ours to close. A terminal is not handed into a cage."""
        streams, own = [], []
        for number, descriptor in enumerate(wanted):
            descriptor = number if descriptor == -1 else descriptor
            try:
                is_terminal = os.isatty(descriptor)
                os.fstat(descriptor)
            except OSError:
                # Closed here, so that it is empty there.
                is_terminal, number = True, 0
            if is_terminal and number == 0:
                descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
                own.append(descriptor)
            elif is_terminal:
                reader, writer = os.pipe()
                own.append(writer)
                relay = threading.Thread(target=_relay, args=(reader, os.dup(descriptor)), daemon=True)
                relay.start()
                self._relays.append(relay)
                descriptor = writer
            streams.append(descriptor)
        return streams, own

    # -- the end -----------------------------------------------------------------------------------------------------------

    def poll(self) -> Any:
        code = super().poll()
        self._tell_trouble()
        return code

    def wait(self, timeout: Optional[float] = None) -> int:
        code: int = super().wait(timeout=timeout)
        self._tell_trouble()
        return code

    def _tell_trouble(self) -> None:
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    def _internal_poll(self, *args: Any, **more: Any) -> Any:
        if self._session is None:
            return super()._internal_poll(*args, **more)  # type: ignore[misc]
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                self._hear(0)
            except KeywardError as error:
                self._is_lost(error)
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def _wait(self, timeout: Optional[float]) -> Any:
        if self._session is None:
            return super()._wait(timeout=timeout)  # type: ignore[misc]
        until = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = -1.0 if until is None else max(0.0, until - time.monotonic())
            if not self._waitpid_lock.acquire(timeout=left):  # type: ignore[attr-defined]
                raise TimeoutExpired(self.args, timeout or 0)
            try:
                if self.returncode is None:
                    self._hear(None if until is None else max(0.0, until - time.monotonic()))
            except KeywardError as error:
                self._is_lost(error)
                raise
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
            if self.returncode is None and until is not None and time.monotonic() >= until:
                raise TimeoutExpired(self.args, timeout or 0)
        return self.returncode

    def _hear(self, timeout: Optional[float]) -> None:
        """Reads what the session says about this command, until its end or until the time is over."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            connection, session = self._connection, self._session
            if connection is None or session is None:
                # It has ended, whatever was written over its code.
                self.returncode = self._code
                return
            received = connection.receive(None if until is None else max(0.0, until - time.monotonic()))
            if received is None:
                return
            self._take(received[0], connection, session)

    def _take(self, message: "Answer", connection: "Connection", session: "Session") -> None:
        if message["is"] == "ended" and (self._is_quiet or message["job"] == self._job):
            signal = message["signal"]
            for relay in self._relays:
                relay.join(5)
            self.limit = message["limit"]
            self._code = message["exit"] if signal is None or self.limit else -signal
            self.returncode = self._code
            self._connection = None
            session._give_back(connection, is_clean=self._unanswered == 0)
        elif message["is"] == "said":
            session.notices.append(message["text"])
        elif message["is"] == "refused" and self._is_quiet:
            self._is_refused(message, connection, session)
        elif message["is"] in ("done", "refused"):
            self._unanswered -= 1

    def _is_refused(self, message: "AnswerRefused", connection: "Connection", session: "Session") -> None:
        """The command of a quiet start did not run: the first call that waits for it raises why."""
        from ._door import refusal

        self._trouble = refusal(message)
        if isinstance(self._trouble, (NotFound, NotExecutable)):
            self._trouble.filename = os.fsdecode(self._wish.argv[0])
        self.returncode = self._code = message["exit"] or 125
        self._connection = None
        session._give_back(connection, is_clean=True)

    def _is_lost(self, error: KeywardError) -> None:
        """The session has ended, and the command with it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self.returncode = self._code = -int(_signal.SIGKILL)
        self._trouble = error

    def _handle_exitstatus(self, *given: Any, **more: Any) -> None:
        super()._handle_exitstatus(*given, **more)  # type: ignore[misc]
        if self._outcome == -1:
            return
        import json

        try:
            told = json.loads(os.pread(self._outcome, 1 << 24, 0) or b"{}")
        except ValueError:
            told = {}
        self._forget_outcome()
        how = told.get("outcome")
        if how == "signalled":
            self.returncode = -told["signal"]
        elif how == "limit":
            self.limit = told["limit"]
        elif how is not None and how != "exited":
            self._trouble = _trouble(told)
            if isinstance(self._trouble, (NotFound, NotExecutable)):
                self._trouble.filename = os.fsdecode(self._wish.argv[0])
        elif how is None and self.returncode == _USAGE:
            # What cannot be read as a command line has no outcome yet.
            self._trouble = Refused(
                "the launcher did not take the flags of this command; its standard error says why",
                "`keyward help run` lists them, and what each takes",
                code="usage",
            )
        elif how is None and self.returncode >= 0:
            self._trouble = Fault("the launcher ended without an outcome", "`keyward doctor` shows what this host can do")

    def _forget_outcome(self) -> None:
        descriptor, self._outcome = self._outcome, -1
        if descriptor != -1:
            os.close(descriptor)

    # -- signals -----------------------------------------------------------------------------------------------------------

    def send_signal(self, sig: int) -> None:
        """Sends a signal to the command. It does nothing once the command has ended."""
        if self._session is None:
            # The launcher passes it on; its own end by SIGKILL is that of the cage.
            if self._internal_poll() is None:
                try:
                    os.kill(self.pid, sig)
                except ProcessLookupError:
                    pass
            return
        connection = self._connection
        if self._internal_poll() is not None or connection is None:
            return
        number = int(sig)
        if number == 0:
            return
        if self._is_quiet:
            # Its number is not known. The session ends what a connection has started when that ends.
            self._connection = None
            self.returncode = self._code = -int(_signal.SIGKILL)
            connection.hang_up()
            return
        self._unanswered += 1
        if number == _signal.SIGKILL:
            connection.send({"do": "kill", "job": self._job})
        else:
            connection.send({"do": "signal", "job": self._job, "signal": number})

    def __del__(self, *given: Any, **more: Any) -> None:
        if getattr(self, "_outcome", -1) != -1 and self.returncode is not None:
            self._forget_outcome()
        parent = getattr(super(), "__del__", None)
        if parent is not None:
            parent(*given, **more)


class _Wish:
    """The command as the caller wants it."""

    def __init__(
        self,
        args: Words,
        executable: Any,
        shell: bool,
        env: Optional[Mapping[Any, Any]],
        flags: Dict[str, Any],
        fresh: bool,
        tools: Tuple[str, ...],
        line: bool,
    ) -> None:
        self.argv = _argv(args, executable, shell)
        self.env = None if env is None else _environment(env)
        self.flags, self.fresh, self.tools, self.line = flags, fresh, tools, line

    def for_the_launcher(self) -> Tuple[List[bytes], Optional[Dict[bytes, bytes]], List[str]]:
        """The words, the environment of the launcher, and its flags."""
        given = dict(self.flags)
        if self.env is None:
            return self.argv, None, _flags(given)
        named = {os.fsencode(name) for key in ("inherit_credentials", "pass_") for name in given.get(key) or ()}
        changed, removed = _changes(self.env)
        environment = {name: value for name, value in os.environb.items() if name not in removed}
        settings = dict(given.pop("set_env", None) or {})
        passed = list(given.pop("pass_", None) or ())
        for name, value in changed.items():
            if name in named or name == b"PATH":
                environment[name] = value
                continue
            _refuse_a_credential(name, value)
            try:
                settings[name.decode("utf-8")] = value.decode("utf-8")
            except UnicodeDecodeError:
                # A flag holds text; a variable that is passed on may hold any bytes.
                environment[name] = value
                passed.append(os.fsdecode(name))
        return self.argv, environment, _flags({**given, "set_env": settings, "pass_": passed})

    def for_a_session(self, cwd: Any) -> "Message":
        from ._door import word

        argv = self.argv
        if self.env is not None:
            if self.line:
                raise Refused("a line of the shell takes no env", "set variables in the line: `export NAME=value`")
            changed, removed = _changes(self.env)
            for name, value in changed.items():
                _refuse_a_credential(name, value)
            unset = [part for name in sorted(removed) for part in (b"-u", name)]
            setting = [name + b"=" + value for name, value in changed.items()]
            if unset or setting:
                argv = [b"env", *unset, *setting, *argv]
        message: Message = {"do": "exec", "argv": [word(part) for part in argv]}
        if not self.line or cwd is not None:
            here = os.getcwdb()
            place = here if cwd is None else os.path.join(here, os.fsencode(cwd))
            message["cwd"], message["from"] = word(place), word(here)
        if self.fresh:
            message["fresh"] = True
        if self.tools:
            message["tools"] = list(self.tools)
        if self.line:
            message["line"] = True
        return message


def _argv(args: Words, executable: Any, shell: bool) -> List[bytes]:
    if isinstance(args, os.PathLike) and shell:
        raise TypeError("path-like args is not allowed when shell is true")
    if isinstance(args, (str, bytes, os.PathLike)):
        words: List[Any] = [args]
    else:
        words = list(args)
    if not words:
        raise IndexError("the command is empty")
    if shell:
        words = ["/bin/sh" if executable is None else executable, "-c", *words]
    elif executable is not None:
        words[0] = executable
    encoded = [os.fsencode(one) for one in words]
    if any(b"\0" in one for one in encoded):
        raise ValueError("embedded null byte")
    return encoded


def _environment(env: Mapping[Any, Any]) -> Dict[bytes, bytes]:
    made = {}
    for name, value in env.items():
        key, data = os.fsencode(name), os.fsencode(value)
        if b"=" in key or not key:
            raise ValueError("illegal environment variable name")
        if b"\0" in key + data:
            raise ValueError("embedded null byte")
        made[key] = data
    return made


def _changes(env: Dict[bytes, bytes]) -> Tuple[Dict[bytes, bytes], "set[bytes]"]:
    """What ``env`` sets, and what it leaves out, compared with the environment of this process."""
    mine = os.environb
    kept = {os.fsencode(name) for name in _FOR_THE_LAUNCHER}
    changed = {name: value for name, value in env.items() if mine.get(name) != value and name != b"HOME"}
    return changed, {name for name in mine if name not in env and name not in kept}


def _refuse_a_credential(name: bytes, value: bytes) -> None:
    from ._environment import looks_like_credential
    from ._registry import registry

    hit = looks_like_credential(registry(), name.decode("latin-1"), value.decode("latin-1"))
    if hit is not None and hit[0] != "authority":
        raise Refused(
            "%s looks like a credential (%s), and is not set for a command" % (os.fsdecode(name), hit[1]),
            "name it with inherit_credentials and trust='executor', or deliver it with secrets",
            code="refused",
            rule=hit[0],
        )


def _refuse_what_leads_out(given: Dict[str, Any]) -> None:
    if tuple(given["pass_fds"]):
        raise Refused(
            "pass_fds: every descriptor besides the three streams is closed in a cage, because it could lead out of it",
            "write what the command needs to its stdin, or show it a file with read=[...]",
            code="usage",
        )
    for name, why in _REFUSED.items():
        if given[name] is not None:
            raise Refused("%s is not possible: %s" % (name, why), "leave it out", code="usage")
    if not given["close_fds"]:
        raise Refused(
            "close_fds=False is not possible: a cage gets the three streams and no other descriptor",
            "leave it out",
            code="usage",
        )
    if given["umask"] not in (-1, 0o22) or given["process_group"] not in (None, -1, 0):
        raise Refused(
            "umask and process_group are not possible: a command in a cage has its own", "leave them out", code="usage"
        )


def _trouble(told: Mapping[str, Any]) -> KeywardError:
    """The exception for an outcome in which no command ran."""
    kind: Any = {"denied": Denied, "refused": Refused}.get(told["outcome"], Fault)
    kind = {126: NotExecutable, 127: NotFound}.get(told["exit"], kind)
    if kind is Fault and told["exit"] == _USAGE:
        kind = Refused
    fact = told.get("fact", "the command did not run")
    return kind(  # type: ignore[no-any-return]
        fact,
        told.get("remedy", ""),
        code=told.get("code", "fault"),
        rule=told.get("rule"),
        reason=told.get("reason") or (fact[len("denied: ") :] if fact.startswith("denied: ") else fact),
        retryable=bool(told.get("retry")),
    )


def _relay(reader: int, terminal: int) -> None:
    """Copies what a command prints to our terminal."""
    try:
        while True:
            part = os.read(reader, 65536)
            if not part:
                return
            while part:
                part = part[os.write(terminal, part) :]
    except OSError:
        pass
    finally:
        os.close(reader)
        os.close(terminal)


# -- the functions of subprocess -------------------------------------------------------------------------------------------


def run(
    *popenargs: Any,
    input: Any = None,
    capture_output: bool = False,
    timeout: Optional[float] = None,
    check: bool = False,
    **kwargs: Any,
) -> "CompletedProcess[Any]":
    """Runs a command in a cage and waits for it, as :func:`subprocess.run` does."""
    if input is not None:
        if kwargs.get("stdin") is not None:
            raise ValueError("stdin and input arguments may not both be used.")
        kwargs["stdin"] = PIPE
    if capture_output:
        if kwargs.get("stdout") is not None or kwargs.get("stderr") is not None:
            raise ValueError("stdout and stderr arguments may not be used with capture_output.")
        kwargs["stdout"] = kwargs["stderr"] = PIPE
    # Without a time to keep, only the end counts: a session need not tell of the start.
    with Popen(*popenargs, _quietly=timeout is None, **kwargs) as process:
        try:
            stdout, stderr = process.communicate(input, timeout=timeout)
        except TimeoutExpired:
            process.kill()
            process.wait()
            raise
        except BaseException:
            process.kill()
            raise
        code = process.poll()
    if check and code:
        raise CalledProcessError(code, process.args, output=stdout, stderr=stderr)
    return CompletedProcess(process.args, code, stdout, stderr)


def call(*popenargs: Any, timeout: Optional[float] = None, **kwargs: Any) -> int:
    """Runs a command in a cage and returns its code, as :func:`subprocess.call` does."""
    with Popen(*popenargs, _quietly=timeout is None, **kwargs) as process:
        try:
            return process.wait(timeout=timeout)
        except BaseException:
            process.kill()
            raise


def check_call(*popenargs: Any, **kwargs: Any) -> int:
    """As :func:`call`, but a code other than 0 is a :class:`CalledProcessError`."""
    code = call(*popenargs, **kwargs)
    if code:
        command = kwargs.get("args")
        raise CalledProcessError(code, popenargs[0] if command is None else command)
    return 0


def check_output(*popenargs: Any, timeout: Optional[float] = None, **kwargs: Any) -> Any:
    """Runs a command in a cage and returns what it prints, as :func:`subprocess.check_output` does."""
    for name in ("stdout", "check"):
        if name in kwargs:
            raise ValueError("%s argument not allowed, it will be overridden." % name)
    if "input" in kwargs and kwargs["input"] is None:
        is_text = any(kwargs.get(name) for name in ("text", "encoding", "errors", "universal_newlines"))
        kwargs["input"] = "" if is_text else b""
    return run(*popenargs, stdout=PIPE, timeout=timeout, check=True, **kwargs).stdout


def getstatusoutput(cmd: Words, *, encoding: Optional[str] = None, errors: Optional[str] = None, **more: Any) -> Tuple[int, str]:
    """The code and the output of a line for the shell, as :func:`subprocess.getstatusoutput` gives them."""
    try:
        output = check_output(cmd, shell=True, text=True, stderr=STDOUT, encoding=encoding, errors=errors, **more)
        code = 0
    except CalledProcessError as error:
        output, code = error.output, error.returncode
    return code, output[:-1] if output[-1:] == "\n" else output


def getoutput(cmd: Words, *, encoding: Optional[str] = None, errors: Optional[str] = None, **more: Any) -> str:
    """The output of a line for the shell, as :func:`subprocess.getoutput` gives it."""
    return getstatusoutput(cmd, encoding=encoding, errors=errors, **more)[1]


__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "CalledProcessError",
    "CompletedProcess",
    "Popen",
    "TimeoutExpired",
    "call",
    "check_call",
    "check_output",
    "getoutput",
    "getstatusoutput",
    "run",
]
