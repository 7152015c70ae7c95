"""The generated registry: names and values that are credentials, loaders, operational names, tools.

``registry.json`` is made from the sources of Keyward. It is read once, when it is needed first.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import Any, Dict, List, Optional, Pattern, Set, Tuple


def platform_here() -> str:
    """The name of this platform in the registry. An unknown system is treated as Linux."""
    if sys.platform == "darwin":
        return "macos"
    if sys.platform in ("win32", "cygwin"):
        return "windows"
    return "linux"


class Names:
    """Names of variables, of which some hold one ``*`` for at least one character."""

    def __init__(self, rows: Dict[str, Any]) -> None:
        self._exact: Dict[str, Any] = {}
        self._starred: List[Tuple[str, str, Any]] = []
        for name, row in rows.items():
            head, star, tail = name.partition("*")
            if star:
                self._starred.append((head, tail, row))
            else:
                self._exact[name] = row

    def exact(self, name: str) -> Any:
        return self._exact.get(name)

    def starred(self, name: str) -> Any:
        for head, tail, row in self._starred:
            if len(name) > len(head) + len(tail) and name.startswith(head) and name.endswith(tail):
                return row
        return None

    def find(self, name: str) -> Any:
        found = self.exact(name)
        return found if found is not None else self.starred(name)


class Registry:
    """The tables, in the form in which they are searched. Names are in upper case where the case does not count."""

    def __init__(self, text: str) -> None:
        import json

        tables = json.loads(text)
        if tables["v"] != 1:
            raise ValueError("the registry of this package has another version")
        self.longest_entry: int = tables["longest_entry"]
        self.known = Names({name: (kind, provider) for name, kind, provider in tables["known"]})
        self.loader = Names({name: name for name in tables["loader"]})
        self.loader_except = Names({name: name for name in tables["loader_except"]})
        self.operational = Names({name: name for name in tables["operational"]})
        self.platforms: Dict[str, Any] = tables["platforms"]
        self.further: Dict[str, Set[str]] = {
            platform: set(row["operational"]) for platform, row in self.platforms.items()
        }
        self.substrings: List[str] = tables["substrings"]
        self.words: Set[str] = set(tables["words"])
        self.proxies: Set[str] = set(tables["proxies"])
        self.without_network: Dict[str, str] = tables["without_network"]
        self.may_inherit: Set[str] = set(tables["classes_that_may_inherit"])
        self.tools: Dict[str, Any] = tables["tools"]
        self._values: List[Tuple[str, str]] = [(label, pattern) for label, pattern in tables["values"]]
        self._any_value: Optional[Pattern[str]] = None

    def _any(self) -> Pattern[str]:
        if self._any_value is None:
            self._any_value = re.compile(_union([pattern for _, pattern in self._values]))
        return self._any_value

    def value_shape(self, value: str) -> Optional[str]:
        """The label of a credential in a value, each byte of which is one character."""
        if len(value) < 4 or self._any().search(value) is None:
            return None
        return next(label for label, pattern in self._values if re.search(pattern, value))

    def without_credentials(self, text: str, instead: str) -> str:
        """The text without what looks like a credential, as far as its characters go."""
        raw = text.encode("utf-8", "surrogateescape").decode("latin-1")
        pattern = self._any()
        parts: List[str] = []
        at = 0
        while True:
            found = pattern.search(raw, at)
            if found is None:
                break
            end = found.end()
            while end < len(raw) and raw[end] > " " and raw[end] not in "\"'`\\,;)}]":
                end += 1
            parts += [raw[at : found.start()], instead]
            at = end
        return ("".join(parts) + raw[at:]).encode("latin-1").decode("utf-8", "surrogateescape")

    def name_shape(self, name: str) -> Optional[str]:
        """The part of a name, in upper case, that makes it look like a credential."""
        for part in self.substrings:
            if part in name:
                return part
        for word in name.split("_"):
            if word in self.words:
                return word
        return None


#: What a pattern begins with that fits only where a word begins.
_BOUNDARY = "(?<![A-Za-z0-9])"


def _union(patterns: List[str]) -> str:
    """One pattern for all. Those that begin a word are looked at there only, and by their first character."""
    first: Dict[str, List[str]] = {}
    rest = []
    for pattern in patterns:
        behind = pattern[len(_BOUNDARY) :] if pattern.startswith(_BOUNDARY) else ""
        if behind[:1].isalnum():
            first.setdefault(behind[0], []).append(behind[1:])
        else:
            rest.append("(?:%s)" % pattern)
    words = "|".join("%s(?:%s)" % (sign, "|".join(tails)) for sign, tails in first.items())
    return "|".join(["%s(?:%s)" % (_BOUNDARY, words), *rest])


@functools.lru_cache(maxsize=None)
def registry() -> Registry:
    """The registry that comes with the package."""
    with open(os.path.join(os.path.dirname(__file__), "registry.json"), encoding="utf-8") as file:
        return Registry(file.read())
