"""Keyward: runs what an AI agent spawns without handing over the user's keys."""

from __future__ import annotations

from ._environment import Decision, Dropped, Passed, environ, explain_environ
from ._errors import Fault, KeywardError, NotInstalled, Refused
from ._homes import profile_home

__all__ = [
    "Decision",
    "Dropped",
    "Fault",
    "KeywardError",
    "NotInstalled",
    "Passed",
    "Refused",
    "environ",
    "explain_environ",
    "profile_home",
]
