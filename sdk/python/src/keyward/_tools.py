"""Host tools: functions of this program that commands of a session call, with JSON.

Only a command that names a tool may call it, while it runs. The input is checked against the schema and capped; what
the function gives is passed on without what looks like a credential.
"""

from __future__ import annotations

import inspect
import os
import queue
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, NamedTuple, Optional, Union

from . import _door
from ._errors import KeywardError, Refused

if TYPE_CHECKING:
    from .protocol import AnswerCalled, AnswerDone, AnswerRefused

#: ``{"as": "sh", "field": "command"}``
Judged = Mapping[str, Optional[str]]

#: Inputs and results are longer than this in no message.
LONGEST = 120_000

_REMOVED = "(removed: looks like a credential)"


class _Tool(NamedTuple):
    fn: Callable[..., Any]
    schema: Optional[Mapping[str, Any]]


class Tools:
    """The tools of one session, on a connection of their own."""

    def __init__(self, path: str) -> None:
        self.connection = _door.Connection(path)
        self._tools: Dict[str, _Tool] = {}
        self._offering = threading.Lock()
        self._answers: "queue.SimpleQueue[Union[AnswerDone, AnswerRefused, None]]" = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="keyward-tools", daemon=True).start()

    def add(
        self, name: str, fn: Callable[..., Any], schema: Optional[Mapping[str, Any]], judged: Optional[Judged]
    ) -> None:
        if not callable(fn):
            raise TypeError("a tool is a function")
        if schema is not None:
            from ._schema import check_schema

            check_schema(schema)
        with self._offering:
            before = self._tools.get(name)
            self._tools[name] = _Tool(fn, schema)
            offer: _door.Message = {"do": "offer", "names": [name], "named": True}
            if judged is not None:
                offer["judged"] = {name: dict(judged)}
            self.connection.send(offer)
            try:
                answer = self._answers.get(timeout=10)
            except queue.Empty:
                answer = None
            if answer is None or answer["is"] == "refused":
                del self._tools[name]
                if before is not None:
                    self._tools[name] = before
                raise _door.lost() if answer is None else _door.refusal(answer)

    def _listen(self) -> None:
        while True:
            try:
                received = self.connection.receive()
            except (KeywardError, OSError, ValueError):
                self._answers.put(None)
                return
            if received is None:
                continue
            told, descriptors = received
            _door.close_all(descriptors)
            if told["is"] == "called":
                threading.Thread(target=self._serve, args=(told,), name="keyward-call", daemon=True).start()
            elif told["is"] == "done" or (told["is"] == "refused" and "is not pending" not in told["fact"]):
                # A call whose caller is gone is not pending: its result is for no one.
                self._answers.put(told)

    def _serve(self, told: "AnswerCalled") -> None:
        answer: _door.Message = {"do": "return", "call": told["call"]}
        try:
            answer["output"] = _result(self._tools[told["name"]], told["input"])
        except BaseException as error:
            what = str(error) if isinstance(error, KeywardError) else "%s: %s" % (type(error).__name__, error)
            answer["error"] = redacted(what)[:2000]
        try:
            self.connection.send(answer)
        except (KeywardError, OSError, ValueError):
            pass


def _result(tool: _Tool, given: Any) -> Any:
    import json

    if len(json.dumps(given)) > LONGEST:
        raise Refused("the input is longer than %d bytes" % LONGEST, "pass a path instead")
    if tool.schema is not None:
        from ._schema import fault

        wrong = fault(tool.schema, given)
        if wrong is not None:
            raise Refused("the input does not fit: %s" % wrong, "the schema of the tool says what fits")
    if isinstance(given, dict):
        try:
            inspect.signature(tool.fn).bind(**given)
        except TypeError as error:
            raise Refused("the input does not fit: %s" % error, "name the parameters of the function") from None
        except ValueError:
            pass
        output = tool.fn(**given)
    else:
        output = tool.fn(given)
    if inspect.isawaitable(output):
        import asyncio

        async def finish() -> Any:
            return await output

        output = asyncio.run(finish())
    output = _clean(json.loads(json.dumps(output)))
    if len(json.dumps(output, ensure_ascii=False).encode("utf-8")) > LONGEST:
        raise Refused("the result is longer than %d bytes" % LONGEST, "return a part, or a path")
    return output


def _clean(value: Any) -> Any:
    """A value of JSON without credentials, in its keys as well."""
    from ._registry import registry

    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, list):
        return [_clean(one) for one in value]
    if isinstance(value, dict):
        gives_away = registry().name_shape
        return {
            redacted(key): _REMOVED if isinstance(one, str) and one and gives_away(key.upper()) else _clean(one)
            for key, one in value.items()
        }
    return value


def redacted(text: str) -> str:
    """The text without credentials: the values of this process's own environment, and what looks like one.

    A notice and not a wall: a function that encodes a secret passes it on.
    """
    from ._environment import explain_environ
    from ._registry import registry

    tables = registry()
    held = {row.name for row in explain_environ().dropped if row.rule in ("registry", "name-shape", "value-shape")}
    for name in held:
        value = os.environ.get(name, "")
        if len(value) >= 8:
            text = text.replace(value, _REMOVED)
    return tables.without_credentials(text, _REMOVED)
