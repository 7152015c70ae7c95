// Carries the messages of HTTP clients to an MCP server on stdio, one server for each session, without looking into them. The
// conformance suite speaks HTTP alone. Both ends are the official SDK's transports.
//
//   node mcp_bridge.mjs DIRECTORY_OF_THE_SDK COMMAND…       prints its URL
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
const [directory, command, ...args] = process.argv.slice(2);
const sdk = `${directory}/dist/esm`;
const { StreamableHTTPServerTransport } = await import(`${sdk}/server/streamableHttp.js`);
const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`);

const sessions = new Map();
const open = async () => {
  const server = new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" });
  const http = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, http),
    enableDnsRebindingProtection: true,
    allowedHosts: [`127.0.0.1:${port()}`, `localhost:${port()}`],
  });
  // What belongs to a request goes back with it; what the server begins by itself goes with the request that is open.
  let last;
  http.onmessage = (message) => {
    if (message.id !== undefined && message.method) last = message.id;
    server.send(message);
  };
  server.onmessage = (message) => {
    const answers = message.id !== undefined && !message.method;
    http.send(message, answers ? undefined : { relatedRequestId: last });
  };
  http.onclose = () => server.close();
  await server.start();
  await http.start();
  return http;
};
const listener = createServer(async (request, response) => {
  try {
    const http = sessions.get(request.headers["mcp-session-id"]) ?? (await open());
    await http.handleRequest(request, response);
  } catch (error) {
    if (!response.headersSent) response.writeHead(500).end(String(error));
  }
});
const port = () => listener.address().port;
listener.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${port()}/mcp`));
