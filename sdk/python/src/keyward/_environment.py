"""The environment for a child that the caller spawns itself: built up from nothing, never filtered down.

Pure: no executable is needed, and nothing is read but the given environment and the registry of the package. The launcher
decides the same for the same inputs. What no rule passes is dropped.
"""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ._registry import Registry, platform_here, registry


class Dropped(NamedTuple):
    """A variable that the child does not get."""

    #: Safe to print: a name that looks like a credential itself is not shown.
    name: str
    #: Such as ``registry``, ``name-shape``, ``value-shape``, ``loader`` or ``not-listed``.
    rule: str
    #: The provider, the part of the name, or the kind of value.
    detail: Optional[str]


class Passed(NamedTuple):
    """A variable that the child gets."""

    name: str
    value: str
    rule: str


class Decision(NamedTuple):
    """What a child gets, what it does not get, and which names were asked for and are not set."""

    passed: List[Passed]
    dropped: List[Dropped]
    missing: List[str]

    def environ(self) -> Dict[str, str]:
        return {row.name: row.value for row in self.passed}


class Inputs(NamedTuple):
    """What the decision depends on besides the environment."""

    platform: str
    inherit_credentials: Sequence[str]
    pass_: Sequence[str]
    not_secret: Sequence[str]
    dangerous_loader_env: Sequence[str]
    set: Mapping[str, str]
    trust: str
    net: str


_Rule = Tuple[str, Optional[str]]


def environ(
    base: Optional[Mapping[str, str]] = None,
    *,
    inherit_credentials: Iterable[str] = (),
    pass_: Iterable[str] = (),
    not_secret: Iterable[str] = (),
    dangerous_loader_env: Iterable[str] = (),
    set: Optional[Mapping[str, str]] = None,
    trust: str = "executor",
    net: str = "open",
    home: Union[None, str, "os.PathLike[str]"] = None,
    platform: Optional[str] = None,
) -> Dict[str, str]:
    """The environment for a child that you spawn yourself, without credentials.

    ``base`` is ``os.environ`` unless you give another. ``inherit_credentials`` names the credentials that the child
    needs. ``pass_`` names further variables, which pass unless they look like a credential. ``home`` is a HOME for the
    child, such as that of :func:`keyward.profile_home`. This is hygiene, not a cage: the child can still read your files.
    """
    decision = explain_environ(
        base,
        inherit_credentials=inherit_credentials,
        pass_=pass_,
        not_secret=not_secret,
        dangerous_loader_env=dangerous_loader_env,
        set=set,
        trust=trust,
        net=net,
        platform=platform,
    )
    made = decision.environ()
    if home is not None:
        _move_home(made, os.fspath(home), platform or platform_here())
    return made


def explain_environ(
    base: Optional[Mapping[str, str]] = None,
    *,
    inherit_credentials: Iterable[str] = (),
    pass_: Iterable[str] = (),
    not_secret: Iterable[str] = (),
    dangerous_loader_env: Iterable[str] = (),
    set: Optional[Mapping[str, str]] = None,
    trust: str = "executor",
    net: str = "open",
    platform: Optional[str] = None,
) -> Decision:
    """What :func:`environ` decides, with the rule for each variable."""
    given = os.environ if base is None else base
    inputs = Inputs(
        platform=platform or platform_here(),
        inherit_credentials=_names(inherit_credentials),
        pass_=_names(pass_),
        not_secret=_names(not_secret),
        dangerous_loader_env=_names(dangerous_loader_env),
        set=set or {},
        trust=trust,
        net=net,
    )
    entries = [_bytes(name) + b"=" + _bytes(value) for name, value in given.items()]
    return decide(entries, inputs)


def decide(entries: Iterable[bytes], inputs: Inputs) -> Decision:
    """Decides about raw ``NAME=value`` entries, in the order in which they stand."""
    tables = registry()
    if inputs.platform not in tables.platforms:
        raise ValueError("the platform is one of %s" % ", ".join(sorted(tables.platforms)))
    if inputs.net not in ("open", "none"):
        raise ValueError("net is 'open' or 'none'")
    if inputs.trust not in ("internal", "executor", "tool", "unknown"):
        raise ValueError("trust is 'internal', 'executor', 'tool' or 'unknown'")
    return _Deciding(tables, inputs).decide(entries)


def looks_like_credential(tables: Registry, name: str, value: str) -> Optional[_Rule]:
    """The rule by which a variable is taken for a credential or for a way to someone's authority."""
    upper = _upper(name)
    known = tables.known.find(upper)
    if known is not None:
        kind, provider = known
        return ("registry" if kind == "credential" else "authority", provider)
    if _is_proxy(tables, name) and "@" in value:
        return ("value-shape", "proxy with a login")
    shape = tables.name_shape(upper)
    if shape is not None:
        return ("name-shape", shape)
    label = tables.value_shape(value) or _key_as_name(tables, name)
    return None if label is None else ("value-shape", label)


class _Deciding:
    def __init__(self, tables: Registry, inputs: Inputs) -> None:
        self.tables = tables
        self.inputs = inputs
        self.folds = inputs.platform == "windows"
        self.passed: Dict[str, Passed] = {}
        self.dropped: List[Dropped] = []

    def decide(self, entries: Iterable[bytes]) -> Decision:
        groups: Dict[str, List[Tuple[str, str]]] = {}
        for entry in entries:
            self._sort_in(entry, groups)
        replaced = {self._key(name) for name in self.inputs.set}
        for name, value in self.inputs.set.items():
            self._set(_one_by_one(_bytes(name)), _one_by_one(_bytes(value)))
        for key in sorted(groups):
            if key not in replaced:
                self._judge_group(groups[key])
        missing = self._missing(groups, replaced)
        self._ensure_utf8()
        if self.inputs.net == "none":
            for name, value in self.tables.without_network.items():
                if self._key(name) not in self.passed:
                    self._give(name, value, "no-network")
        passed = sorted(self.passed.values(), key=lambda row: row.name)
        return Decision(
            [row._replace(value=_text(row.value)) for row in passed],
            sorted(self.dropped, key=lambda row: row.name),
            missing,
        )

    def _key(self, name: str) -> str:
        return _upper(name) if self.folds else name

    def _sort_in(self, entry: bytes, groups: Dict[str, List[Tuple[str, str]]]) -> None:
        name, sign, value = _one_by_one(entry).partition("=")
        what = "no `=`" if not sign else _malformed(name)
        if what is None and "\0" in value:
            what = "a NUL byte in the value"
        if what is not None:
            self._drop(name, ("malformed", what))
        else:
            groups.setdefault(self._key(name), []).append((name, value))

    def _drop(self, name: str, rule: _Rule) -> None:
        self.dropped.append(Dropped(_shown(self.tables, name), *rule))

    def _give(self, name: str, value: str, rule: str) -> None:
        self.passed[self._key(name)] = Passed(name, value, rule)

    def _named(self, names: Iterable[str], name: str) -> bool:
        key = self._key(name)
        return any(self._key(other) == key for other in names)

    def _set(self, name: str, value: str) -> None:
        what = _malformed(name) or ("a NUL byte in the value" if "\0" in value else None)
        if what is not None:
            return self._drop(name, ("malformed", what))
        if len(name) + len(value) + 2 > self.tables.longest_entry:
            return self._drop(name, ("too-long", None))
        hit = looks_like_credential(self.tables, name, value)
        if hit is None or hit[0] == "authority" or self._named(self.inputs.not_secret, name):
            return self._give(name, value, "set")
        return self._drop(name, hit)

    def _judge_group(self, group: List[Tuple[str, str]]) -> None:
        name, value = group[0]
        passes, rule = self._judge(name, [value for _, value in group])
        if not passes:
            for other, _ in group:
                self._drop(other, rule)
            return
        self._give(name, value, rule[0])
        for other, _ in group[1:]:
            self._drop(other, ("duplicate", None))

    def _judge(self, name: str, values: List[str]) -> Tuple[bool, _Rule]:
        """Decides about one name. More than one value means duplicates, of which every one counts."""
        tables, inputs = self.tables, self.inputs
        if any(len(name) + len(value) + 2 > tables.longest_entry for value in values):
            return False, ("too-long", None)
        inherit = self._named(inputs.inherit_credentials, name)
        if inherit and inputs.trust not in tables.may_inherit:
            return False, ("class-may-not-inherit", None)
        loader = _loader(tables, name)
        allowed = self._named(inputs.dangerous_loader_env, name)
        if loader is not None and not allowed:
            return False, ("loader", loader)
        if inherit:
            return True, ("inherited", None)
        hits = (looks_like_credential(tables, name, value) for value in values)
        hit = next((hit for hit in hits if hit is not None), None)
        cleared = self._named(inputs.not_secret, name)
        if hit is not None and (hit[0] == "authority" or not cleared):
            return False, hit
        if loader is not None:
            rule = "loader-allowed"
        elif self._named(inputs.pass_, name):
            rule = "passed"
        elif self._is_operational(name):
            rule = "operational"
        elif _is_proxy(tables, name) and inputs.net == "open":
            rule = "proxy"
        else:
            return False, ("not-listed", None)
        return True, ("not-secret-cleared" if hit is not None else rule, None)

    def _is_operational(self, name: str) -> bool:
        key = self._key(name)
        return self.tables.operational.find(key) is not None or key in self.tables.further[self.inputs.platform]

    def _missing(self, groups: Mapping[str, object], replaced: "set[str]") -> List[str]:
        def absent(name: str) -> bool:
            return self._key(name) not in groups and self._key(name) not in replaced

        inherit = [name for name in self.inputs.inherit_credentials if absent(name)]
        if self.inputs.trust not in self.tables.may_inherit:
            for name in inherit:
                self._drop(_one_by_one(_bytes(name)), ("class-may-not-inherit", None))
            inherit = []
        return inherit + [name for name in self.inputs.pass_ if absent(name)]

    def _ensure_utf8(self) -> None:
        if "PYTHONUTF8" not in self.passed:
            self._give("PYTHONUTF8", "1", "made-utf8")
        locale = self.tables.platforms[self.inputs.platform]["locale"]
        if locale is None:
            return
        for name in ("LC_ALL", "LC_CTYPE", "LANG"):
            row = self.passed.get(name)
            if row is None or not row.value:
                continue
            if row.rule == "set" or _names_utf8(row.value):
                return
            del self.passed[name]
            self.dropped.append(Dropped(name, "not-utf8", None))
        self._give("LANG", locale, "made-utf8")


def _names(names: Iterable[str]) -> List[str]:
    if isinstance(names, str):
        raise TypeError("give a list of names, not one string")
    return list(names)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)


def _one_by_one(data: bytes) -> str:
    """Each byte as one character: tables and patterns count bytes."""
    return data.decode("latin-1")


def _text(one_by_one: str) -> str:
    return one_by_one.encode("latin-1").decode("utf-8", "surrogateescape")


def _upper(name: str) -> str:
    """ASCII letters in upper case, and nothing else changed."""
    return name.encode("latin-1", "replace").upper().decode("latin-1")


def _malformed(name: str) -> Optional[str]:
    if not name:
        return "an empty name"
    if "0" <= name[0] <= "9":
        return "a name that begins with a digit"
    if not (name.isascii() and name.replace("_", "a").isalnum()):
        return "a name with other characters than letters, digits and `_`"
    return None


def _loader(tables: Registry, name: str) -> Optional[str]:
    upper = _upper(name)
    exact: Optional[str] = tables.loader.exact(upper)
    if exact is not None:
        return exact
    rule: Optional[str] = tables.loader.starred(upper)
    if rule is None or tables.loader_except.find(upper) is not None or tables.known.find(upper) is not None:
        return None
    return rule


def _is_proxy(tables: Registry, name: str) -> bool:
    one_case = name == name.upper() or name == name.lower()
    return one_case and _upper(name) in tables.proxies


def _key_as_name(tables: Registry, name: str) -> Optional[str]:
    """The label of a key that stands where a name should be, after a slip of the hand."""
    if len(name) < 20 or not any("0" <= sign <= "9" for sign in name):
        return None
    return tables.value_shape(name)


_SIMPLE = {"\t": "\\t", "\r": "\\r", "\n": "\\n", "'": "\\'", '"': '\\"', "\\": "\\\\"}


def _shown(tables: Registry, name: str) -> str:
    """The name as it may be printed."""
    well_formed = _malformed(name) is None
    label = _key_as_name(tables, name) if well_formed else tables.value_shape(name)
    if label is not None:
        return "(not shown: %s)" % label
    if well_formed and len(name) <= 128:
        return name
    if not name:
        return "(empty)"
    text = ""
    for at, sign in enumerate(name):
        plain = sign if " " <= sign <= "~" else "\\x%02x" % ord(sign)
        escaped = _SIMPLE.get(sign, plain)
        if len(text) + len(escaped) > 128 - (at + 1 < len(name)):
            return text + "\u2026"
        text += escaped
    return text


def _names_utf8(locale: str) -> bool:
    charset = locale.split("@")[0].split(".")[-1]
    return _upper(charset) in ("UTF-8", "UTF8")


def _move_home(made: Dict[str, str], home: str, platform: str) -> None:
    made["HOME"] = home
    if platform != "windows":
        return
    for name in [name for name in made if name.upper() in ("HOMEDRIVE", "HOMEPATH")]:
        del made[name]
    made["USERPROFILE"] = home
    made["APPDATA"] = home + "\\AppData\\Roaming"
    made["LOCALAPPDATA"] = home + "\\AppData\\Local"
