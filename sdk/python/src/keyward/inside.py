"""For code in a cage of a session: calls the host tools that the program around the session offers.

``from keyward.inside import call``
"""

from __future__ import annotations

import os
from typing import Any

from . import _door
from ._errors import SessionLost, ToolError


def call(name: str, input: Any = None, /, *, timeout: float = 3600, **parameters: Any) -> Any:
    """Calls a host tool with JSON: ``call("search", text="x")``, or ``call("search", {"text": "x"})``."""
    if input is not None and parameters:
        raise TypeError("give the input as one value or as keywords, not as both")
    if not os.path.exists(_door.CAGE_DOOR):
        raise SessionLost("this is not the cage of a session", "run the code with Session.run()")
    given = parameters if input is None else input
    connection = _door.Connection(_door.CAGE_DOOR)
    try:
        connection.send({"do": "call", "name": name, "input": given})
        received = connection.receive(timeout)
    finally:
        connection.close()
    if received is None:
        raise ToolError("the tool did not answer within %g seconds" % timeout, "try again", retryable=True)
    answer = received[0]
    if answer["is"] == "returned":
        return answer["output"]
    if answer["is"] != "refused":
        raise ToolError("the session gave no answer to a call", "restart the session")
    if answer["exit"] is None:
        raise ToolError(answer["fact"], answer["remedy"], code=answer["code"])
    raise _door.refusal(answer)
