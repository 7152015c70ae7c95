"""A tool for LangChain that runs commands in the cage of a session. Install: pip install keyward langchain-core"""

from __future__ import annotations

import json
from typing import List

import keyward
from langchain_core.tools import BaseTool, StructuredTool, ToolException


def run_tool(session: keyward.Session, timeout: float = 120, most: int = 20_000) -> BaseTool:
    """The session is handed in. The model can neither choose another one nor run a command without it."""

    def run(argv: List[str]) -> str:
        """Runs a command in the project, in a cage without the user's credentials. argv: the program and its arguments."""
        try:
            done = session.run(argv, capture_output=True, text=True, errors="replace", timeout=timeout)
        except keyward.KeywardError as no:
            # The model is told what was denied, and what can be done. It cannot approve anything.
            raise ToolException(json.dumps({"rule": no.rule, "reason": no.reason, "remedy": no.remedy, "retryable": no.retryable}))
        except keyward.TimeoutExpired:
            raise ToolException(json.dumps({"reason": "it took longer than %g s" % timeout, "retryable": True}))
        return json.dumps({"exit": done.returncode, "stdout": done.stdout[-most:], "stderr": done.stderr[-most:]})

    return StructuredTool.from_function(run, name="run", handle_tool_error=True)
