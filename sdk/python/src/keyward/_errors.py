"""What can go wrong, each as an exception of its own. All are below :class:`KeywardError`.

Two lines for a person: the fact, then what one can do. A command that ran and failed is no error of these: it raises what
``subprocess`` raises.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Dict, Optional, Tuple


class KeywardError(Exception):
    """The base of all errors of this package."""

    def __init__(
        self,
        fact: str,
        remedy: str = "",
        *,
        code: str = "fault",
        rule: Optional[str] = None,
        reason: Optional[str] = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(fact)
        #: What happened.
        self.fact = fact
        #: What a person can do about it.
        self.remedy = remedy
        #: A word for programs, as in the page of errors.
        self.code = code
        #: The rule that decided, if one did.
        self.rule = rule
        #: Why the rule says so.
        self.reason = fact if reason is None else reason
        #: Whether the same call may succeed later, without a change.
        self.retryable = retryable

    def __str__(self) -> str:
        return "%s\n%s" % (self.fact, self.remedy) if self.remedy else self.fact

    def __reduce__(self) -> Tuple[Any, ...]:
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(kind: "type[KeywardError]", fields: Dict[str, Any]) -> KeywardError:
    error = kind(fields["fact"], fields["remedy"])
    error.__dict__.update(fields)
    return error


class Denied(KeywardError):
    """The gate or an approver said no. The command did not run."""


class Refused(KeywardError):
    """The policy, the host or the arguments do not allow it. The command did not run."""


class Fault(KeywardError):
    """Keyward, or something that it needs, failed. The command did not run."""


class NotInstalled(KeywardError):
    """There is no executable of Keyward. Nothing is ever run without it."""


class VersionMismatch(KeywardError):
    """The executable or the session speaks another version of the protocol."""


class SessionLost(KeywardError):
    """The session has ended, or this object is not a session of this process."""


class NotShareable(KeywardError, TypeError):
    """A session was to be handed to another process. Also a :class:`TypeError`, as ``pickle`` raises one."""


class NotFound(Refused, FileNotFoundError):
    """The program does not exist in the cage. Also a :class:`FileNotFoundError`, as ``subprocess`` raises one."""

    def __init__(self, fact: str, remedy: str = "", **more: Any) -> None:
        Refused.__init__(self, fact, remedy, **more)
        self.errno = errno.ENOENT
        self.strerror = os.strerror(errno.ENOENT)


class NotExecutable(Refused, PermissionError):
    """The program exists but cannot be executed. Also a :class:`PermissionError`."""

    def __init__(self, fact: str, remedy: str = "", **more: Any) -> None:
        Refused.__init__(self, fact, remedy, **more)
        self.errno = errno.EACCES
        self.strerror = os.strerror(errno.EACCES)


class ToolError(KeywardError):
    """A host tool failed, or its call was refused."""
