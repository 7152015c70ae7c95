"""Questions of the gate, and the callback that answers them. No answer, a late one and a broken one are a no."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import _door
from ._errors import KeywardError

if TYPE_CHECKING:
    from ._session import Approver
    from .protocol import AnswerQuestion


class Question:
    """What an approver is asked. The texts are the agent's: show them as text."""

    def __init__(self, number: int, asked: "AnswerQuestion", whole: Dict[str, Any]) -> None:
        #: The number of the question.
        self.number = number
        #: The whole command, or the name and the input of a call.
        self.argv: List[str] = whole.get("argv", asked["argv"])
        #: Why an approval is needed.
        self.reason: str = asked["reason"]
        #: The rule that says so.
        self.rule: Optional[str] = asked["rule"]
        #: The class of the rule, such as ``git``.
        self.class_: Optional[str] = asked["class"]
        #: Whether it was asked for from inside a cage.
        self.from_inside: bool = asked["from_inside"]
        #: The directory of the command, and the project.
        self.cwd: Optional[str] = whole.get("cwd")
        self.project: Optional[str] = whole.get("project")
        #: Scripts that would run, each with its name and text.
        self.texts: List[Any] = whole.get("texts", [])
        #: The digest of what would run.
        self.digest: str = asked["digest"]
        #: Everything, as the schema of a question describes it.
        self.document = whole

    def __repr__(self) -> str:
        return "<keyward.Question %d %r: %s>" % (self.number, self.argv, self.reason)


def answer_questions(path: str, approver: "Approver", timeout: float) -> _door.Connection:
    """Connects as an approver. The session counts on it as long as the connection lives."""
    connection = _door.Connection(path)
    try:
        connection.request({"do": "watch"})
    except BaseException:
        connection.close()
        raise
    threading.Thread(
        target=_listen, args=(connection, approver, timeout), name="keyward-approvals", daemon=True
    ).start()
    return connection


def _listen(connection: _door.Connection, approver: "Approver", timeout: float) -> None:
    while True:
        try:
            received = connection.receive()
        except (KeywardError, OSError, ValueError):
            return
        if received is None:
            continue
        told, descriptors = received
        try:
            if told["is"] == "question":
                question = Question(told["question"], told, _read(descriptors))
                threading.Thread(
                    target=_answer, args=(connection, question, approver, timeout), name="keyward-question", daemon=True
                ).start()
        finally:
            _door.close_all(descriptors)


def _read(descriptors: List[int]) -> Dict[str, Any]:
    import json

    try:
        whole = json.loads(os.pread(descriptors[0], 1 << 26, 0))
        return whole if isinstance(whole, dict) else {}
    except (ValueError, IndexError, OSError):
        return {}


def _answer(connection: _door.Connection, question: Question, approver: "Approver", timeout: float) -> None:
    said: List[object] = []
    worker = threading.Thread(target=_ask, args=(question, approver, said), name="keyward-approver", daemon=True)
    worker.start()
    worker.join(timeout)
    # A question that was not understood as a whole is not allowed.
    allow = said[:1] == [True] and said[0] is True and bool(question.document)
    try:
        connection.send({"do": "decide", "question": question.number, "allow": allow})
    except (KeywardError, OSError, ValueError):
        pass


def _ask(question: Question, approver: "Approver", said: List[object]) -> None:
    import inspect

    try:
        answer: Any = approver(question)
        if inspect.isawaitable(answer):
            import asyncio

            async def finish() -> object:
                return await answer

            answer = asyncio.run(finish())
        said.append(answer)
    except BaseException:
        # It is told as a denial; what went wrong is the callback's own business.
        said.append(False)
        raise
