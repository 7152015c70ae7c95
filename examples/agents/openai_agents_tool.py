"""A function tool for the OpenAI Agents SDK that runs commands in the cage of a session. Install: pip install keyward openai-agents"""

import json
from typing import List

import keyward
from agents import FunctionTool, RunContextWrapper, function_tool


@function_tool
async def run(context: RunContextWrapper[keyward.Session], argv: List[str]) -> str:
    """Runs a command in the project, in a cage without the user's credentials.

    Args:
        argv: The program and its arguments.
    """
    # The session is the context of the run: Runner.run(agent, text, context=session).
    session = context.context
    try:
        process = await session.create_subprocess_exec(*argv, stdout=keyward.PIPE, stderr=keyward.PIPE)
        stdout, stderr = await process.communicate()
    except keyward.KeywardError as no:
        # The model is told what was denied, and what can be done. It cannot approve anything.
        return json.dumps({"error": {"rule": no.rule, "reason": no.reason, "remedy": no.remedy, "retryable": no.retryable}})
    shown = {"stdout": stdout.decode(errors="replace")[-20_000:], "stderr": stderr.decode(errors="replace")[-20_000:]}
    return json.dumps({"exit": process.returncode, **shown})


assert isinstance(run, FunctionTool)
