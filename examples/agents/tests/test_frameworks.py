"""The tools for LangChain and for the OpenAI Agents SDK. Their models are doubles: they say what a script says."""

import asyncio
import json
import unittest

import keyward
from stage import Stage

SCRIPT = [
    ("1", {"argv": ["sh", "-c", "echo made > made.txt; env; cat ../home/.ssh/id_ed25519"]}),
    ("2", {"argv": ["rm", "-rf", "/"]}),
    ("3", {"argv": ["cat", "made.txt"]}),
]


class Tools(Stage):
    def check(self, results):
        self.assertEqual(len(results), 3)
        self.assertNotIn("canary", results[0])
        self.assertIn("delete-root", results[1])
        self.assertIn("remedy", results[1])
        self.assertEqual(json.loads(results[2])["stdout"], "made\n")

    def test_a_langchain_tool(self):
        from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
        from langchain_core.messages import AIMessage, HumanMessage

        import langchain_tool

        calls = [AIMessage("", tool_calls=[{"name": "run", "args": given, "id": name}]) for name, given in SCRIPT]
        double = GenericFakeChatModel(messages=iter([*calls, AIMessage("done")]))
        with keyward.Session() as session:
            tool = langchain_tool.run_tool(session)
            said, results = [HumanMessage("make it")], []
            while not said[-1].content or said[-1].type != "ai":
                answer = double.invoke(said)
                said.append(answer)
                for call in answer.tool_calls:
                    said.append(tool.invoke(call))
                    results.append(said[-1].content)
        self.check(results)

    def test_a_function_tool_of_the_agents_sdk(self):
        from agents import Agent, Model, ModelResponse, Runner, Usage
        from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

        import openai_agents_tool

        class Double(Model):
            def __init__(self):
                self.left, self.heard = list(SCRIPT), []

            async def get_response(self, system_instructions, input, *given, **more):
                self.heard = input
                if not self.left:
                    text = ResponseOutputText(annotations=[], text="done", type="output_text")
                    said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
                else:
                    name, arguments = self.left.pop(0)
                    said = ResponseFunctionToolCall(arguments=json.dumps(arguments), call_id=name, name="run", type="function_call")
                return ModelResponse(output=[said], usage=Usage(), response_id=None)

            def stream_response(self, *given, **more):
                raise NotImplementedError

        double = Double()
        agent = Agent[keyward.Session](name="builder", model=double, tools=[openai_agents_tool.run])
        with keyward.Session() as session:
            done = asyncio.run(Runner.run(agent, "make it", context=session))
        self.assertEqual(done.final_output, "done")
        self.check([item["output"] for item in double.heard if item.get("type") == "function_call_output"])


if __name__ == "__main__":
    unittest.main()
