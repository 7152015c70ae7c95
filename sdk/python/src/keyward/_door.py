"""The session socket: packets of JSON, descriptors beside them. One packet is one message."""

from __future__ import annotations

import array
import functools
import os
import select
import socket
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from ._errors import (
    Denied,
    Fault,
    KeywardError,
    NotExecutable,
    NotFound,
    Refused,
    SessionLost,
    ToolError,
    VersionMismatch,
)
from ._executable import PROTOCOL

if TYPE_CHECKING:
    from .protocol import Answer, AnswerRefused

#: The longest packet.
LONGEST = 131072

#: Room for the descriptors beside an answer.
_ROOM = socket.CMSG_SPACE(4 * 4)

#: Where the socket is in a cage.
CAGE_DOOR = "/run/keyward-door"

Message = Dict[str, Any]
Word = Union[str, List[int]]

_KINDS = frozenset(
    "started stopped ended said jobs log attached done hello called returned question settled refused".split()
)


def word(text: Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]) -> Word:
    """A word as the protocol has it: a string, or its bytes if it is not UTF-8."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError("embedded null byte")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return list(data)


@functools.lru_cache(maxsize=None)
def _encoder() -> Callable[[object], str]:
    import json

    return json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def encode(message: Message) -> bytes:
    """A request as a packet."""
    packet = _encoder()({"v": PROTOCOL, **message}).encode("utf-8")
    if len(packet) > LONGEST:
        raise Refused(
            "the message is longer than %d bytes" % LONGEST,
            "make the command shorter, or put the data into a file",
            code="usage",
        )
    return packet


def decode(packet: bytes) -> "Answer":
    """An answer. Unknown fields are ignored by those who read it; an unknown kind ends the connection."""
    import json

    try:
        message = json.loads(packet)
        if message["v"] != PROTOCOL and message["is"] != "hello":
            raise VersionMismatch(
                "the session speaks version %s of the protocol" % message["v"], "restart the session"
            )
        if message["is"] not in _KINDS:
            raise Fault("the session said something that this version does not know", "install the same version of both")
    except (ValueError, KeyError, TypeError):
        raise Fault("the session said something that is no message", "restart the session") from None
    return message  # type: ignore[no-any-return]


def refusal(message: "AnswerRefused") -> KeywardError:
    """The exception for a ``refused``."""
    fact, remedy, code, rule = message["fact"], message["remedy"], message["code"], message.get("rule")
    kind: Any = {123: Denied, 126: NotExecutable, 127: NotFound, 120: Refused, None: Refused}.get(message["exit"], Fault)
    reason = fact[len("denied: ") :] if fact.startswith("denied: ") else fact
    error: KeywardError = kind(fact, remedy, code=code, rule=rule, reason=reason, retryable=bool(message.get("retry")))
    return error


class Connection:
    """One connection to a session. A thread that waits reads; others may send meanwhile."""

    def __init__(self, path: str) -> None:
        # One for all answers: a new one of this size would be mapped and returned each time.
        self._buffer = bytearray(LONGEST)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            self._connect(path)
        except OSError:
            self.socket.close()
            raise SessionLost(
                "the session has ended, or does not answer", "start another: keyward.Session()"
            ) from None

    def _connect(self, path: str) -> None:
        # An address has room for 107 bytes; the way by a descriptor is always short enough.
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.socket.settimeout(10)
            self.socket.connect("/proc/self/fd/%d/%s" % (folder, os.path.basename(path)))
            self.socket.settimeout(None)
        finally:
            os.close(folder)

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        packet = encode(message)
        try:
            if descriptors:
                socket.send_fds(self.socket, [packet], list(descriptors))
            else:
                self.socket.send(packet)
        except OSError:
            raise lost() from None

    def receive(self, timeout: Optional[float] = None) -> Optional[Tuple["Answer", List[int]]]:
        """The next message with its descriptors; ``None`` if none came in time."""
        if timeout is not None and not self.is_ready(timeout):
            return None
        try:
            length, beside, _, _ = self.socket.recvmsg_into([self._buffer], _ROOM, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            raise lost() from None
        descriptors = array.array("i")
        for level, kind, data in beside:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        if not length:
            raise lost()
        try:
            return decode(bytes(self._buffer[:length])), list(descriptors)
        except BaseException:
            close_all(descriptors)
            raise

    def is_ready(self, timeout: float) -> bool:
        until = time.monotonic() + timeout
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        while True:
            left = max(0.0, until - time.monotonic())
            if poll.poll(left * 1000 + (1 if left else 0)):
                return True
            if time.monotonic() >= until:
                return False

    def request(self, message: Message, timeout: float = 10) -> Tuple["Answer", List[int]]:
        """Sends a request and waits for its answer. Lines about the project are passed over."""
        self.send(message)
        while True:
            received = self.receive(timeout)
            if received is None:
                raise SessionLost("the session did not answer within %g seconds" % timeout, "start another session")
            if received[0]["is"] == "refused":
                raise refusal(received[0])
            if received[0]["is"] != "said":
                return received

    def close(self) -> None:
        self.socket.close()

    def hang_up(self) -> None:
        """Ends the connection, and waits until the session has ended what was started by it."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
            while self.receive(5) is not None:
                pass
        except (OSError, KeywardError):
            # The session has closed it, too.
            pass
        self.socket.close()

    def end(self) -> None:
        """Ends the connection for every thread that reads from it. Not for a child of fork: it would end its parent's."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


def lost() -> SessionLost:
    return SessionLost("the session has ended, and its commands with it", "start another: keyward.Session()")


def greet(connection: Connection) -> None:
    """Compares the versions."""
    answer, _ = connection.request({"do": "hello"})
    if answer.get("protocol") != PROTOCOL:
        raise VersionMismatch(
            "the session speaks version %s of the protocol, and this package version %d"
            % (answer.get("protocol"), PROTOCOL),
            "install the same version of both, and start another session",
        )


def close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def find(name: str) -> str:
    """The path of the socket of a session, as every client finds it."""
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    home = os.environ.get("HOME", "")
    home = home if home.startswith("/") else os.path.expanduser("~")
    state = os.environ.get("XDG_STATE_HOME", "")
    state = os.path.join(state if state.startswith("/") else os.path.join(home, ".local/state"), "keyward", "run")
    places = [os.path.join(own, "keyward", "sessions", name)] if own.startswith("/") else []
    places.append(os.path.join(state, "sessions", name))
    try:
        places.append(os.readlink(os.path.join(state, "elsewhere", name)))
    except OSError:
        pass
    for place in places:
        if os.path.exists(os.path.join(place, "door")):
            return os.path.join(place, "door")
    raise SessionLost("there is no session %s" % name, "start one: keyward.Session()")


__all__ = ["CAGE_DOOR", "LONGEST", "Connection", "ToolError", "decode", "encode", "find", "greet", "refusal", "word"]
