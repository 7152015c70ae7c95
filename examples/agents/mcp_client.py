"""An agent that has Keyward's tools by the Model Context Protocol. Install: pip install keyward mcp"""

import asyncio
import os
import sys

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client


def server(project: str, *flags: str, keyward: str = "keyward") -> StdioServerParameters:
    """`flags` are those of `keyward run`; what the server may do is decided here, and not by the model."""
    return StdioServerParameters(command=keyward, args=["mcp-server", *flags], cwd=project, env=dict(os.environ))


async def main() -> None:
    async with Client(stdio_client(server(os.getcwd()))) as client:
        print([tool.name for tool in (await client.list_tools()).tools])
        print((await client.call_tool("run", {"argv": sys.argv[1:] or ["id"]})).structured_content)


if __name__ == "__main__":
    asyncio.run(main())
