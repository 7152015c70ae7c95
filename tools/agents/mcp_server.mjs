// An MCP server on stdio, made with the official SDK, that has what the conformance suite asks for, and three tools of our own:
// `large` answers with many bytes, `slow` waits until it is cancelled, `look` searches for planted secrets.
//
//   node mcp_server.mjs DIRECTORY_OF_THE_SDK
import { execSync } from "node:child_process";
const sdk = `${process.argv[2]}/dist/esm`;
const { Server } = await import(`${sdk}/server/index.js`);
const { StdioServerTransport } = await import(`${sdk}/server/stdio.js`);
const t = await import(`${sdk}/types.js`);

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const text = (text) => ({ type: "text", text });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const says = (...content) => ({ content });

const server = new Server(
  { name: "double-for-conformance", version: "1.0.0" },
  { capabilities: { tools: {}, resources: { subscribe: true }, prompts: {}, logging: {}, completions: {} } },
);

const elicit = async (properties, required, message = "please") => {
  const answer = await server.request(
    { method: "elicitation/create", params: { message, requestedSchema: { type: "object", properties, required } } },
    t.ElicitResultSchema,
  );
  return says(text(`Elicitation completed: action=${answer.action}, content=${JSON.stringify(answer.content)}`));
};

const tools = {
  test_simple_text: async () => says(text("This is a simple text response for testing.")),
  test_image_content: async () => says(image),
  test_audio_content: async () => says({ type: "audio", data: WAV, mimeType: "audio/wav" }),
  test_embedded_resource: async () =>
    says({ type: "resource", resource: { uri: "test://embedded-resource", mimeType: "text/plain", text: "This is an embedded resource content." } }),
  test_multiple_content_types: async () =>
    says(text("Multiple content types test:"), image, { type: "resource", resource: { uri: "test://mixed-content-resource", mimeType: "application/json", text: '{"test":"data","value":123}' } }),
  test_tool_with_logging: async () => {
    for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
      await server.sendLoggingMessage({ level: "info", data });
      await pause(50);
    }
    return says(text("logged"));
  },
  test_error_handling: async () => ({ isError: true, ...says(text("This tool intentionally returns an error for testing")) }),
  test_tool_with_progress: async (_, extra) => {
    const progressToken = extra._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) await extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      await pause(50);
    }
    return says(text("progressed"));
  },
  test_sampling: async ({ prompt }) => {
    const answer = await server.request(
      { method: "sampling/createMessage", params: { messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 } },
      t.CreateMessageResultSchema,
    );
    return says(text(`LLM response: ${answer.content.text}`));
  },
  test_elicitation: async ({ message }) =>
    elicit({ username: { type: "string", description: "User's response" }, email: { type: "string", description: "User's email address" } }, ["username", "email"], message),
  test_elicitation_sep1034_defaults: async () =>
    elicit({
      name: { type: "string", default: "John Doe" },
      age: { type: "integer", default: 30 },
      score: { type: "number", default: 95.5 },
      status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
      verified: { type: "boolean", default: true },
    }),
  test_elicitation_sep1330_enums: async () => {
    const titled = [1, 2, 3].map((n) => ({ const: `value${n}`, title: `Option ${n}` }));
    const plain = ["option1", "option2", "option3"];
    return elicit({
      untitledSingle: { type: "string", enum: plain },
      titledSingle: { type: "string", oneOf: titled },
      legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
      untitledMulti: { type: "array", items: { type: "string", enum: plain } },
      titledMulti: { type: "array", items: { anyOf: titled } },
    });
  },
  json_schema_2020_12_tool: async () => says(text("schema")),
  large: async ({ size }) => says(text("x".repeat(size))),
  slow: async (_, extra) => {
    await new Promise((done) => extra.signal.addEventListener("abort", done));
    process.stderr.write("slow: cancelled\n");
    return says(text("cancelled"));
  },
  look: async ({ command }) => {
    try {
      return says(text(execSync(command, { shell: "/bin/sh", maxBuffer: 1 << 26 }).toString()));
    } catch (error) {
      return says(text(String(error.stdout)));
    }
  },
};
const argumentsOf = { test_sampling: ["prompt"], test_elicitation: ["message"], look: ["command"] };
const schemaOf = (name) => {
  if (name === "json_schema_2020_12_tool")
    return {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: { address: { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
      properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
      additionalProperties: false,
    };
  if (name === "large") return { type: "object", properties: { size: { type: "number" } }, required: ["size"] };
  const names = argumentsOf[name] ?? [];
  return { type: "object", properties: Object.fromEntries(names.map((one) => [one, { type: "string" }])), required: names };
};
server.setRequestHandler(t.ListToolsRequestSchema, async () => ({
  tools: Object.keys(tools).map((name) => ({ name, description: `the tool ${name}`, inputSchema: schemaOf(name) })),
}));
server.setRequestHandler(t.CallToolRequestSchema, async ({ params }, extra) => tools[params.name](params.arguments ?? {}, extra));

const resources = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: PNG },
  "test://watched-resource": { mimeType: "text/plain", text: "watched" },
};
server.setRequestHandler(t.ListResourcesRequestSchema, async () => ({
  resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri.slice(7), description: `the resource ${uri}`, mimeType })),
}));
server.setRequestHandler(t.ListResourceTemplatesRequestSchema, async () => ({
  resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", description: "a template", mimeType: "application/json" }],
}));
server.setRequestHandler(t.ReadResourceRequestSchema, async ({ params: { uri } }) => {
  const id = uri.match(/^test:\/\/template\/(.*)\/data$/)?.[1];
  if (id) return { contents: [{ uri, mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) }] };
  return { contents: [{ uri, ...resources[uri] }] };
});
server.setRequestHandler(t.SubscribeRequestSchema, async () => ({}));
server.setRequestHandler(t.UnsubscribeRequestSchema, async () => ({}));
server.setRequestHandler(t.SetLevelRequestSchema, async () => ({}));
server.setRequestHandler(t.CompleteRequestSchema, async () => ({ completion: { values: ["paris", "park"], total: 2, hasMore: false } }));

const prompts = {
  test_simple_prompt: [[], () => [text("This is a simple prompt for testing.")]],
  test_prompt_with_arguments: [["arg1", "arg2"], (a) => [text(`Prompt with arguments: arg1='${a.arg1}', arg2='${a.arg2}'`)]],
  test_prompt_with_embedded_resource: [
    ["resourceUri"],
    (a) => [{ type: "resource", resource: { uri: a.resourceUri, mimeType: "text/plain", text: "Embedded resource content for testing." } }, text("Please process the embedded resource above.")],
  ],
  test_prompt_with_image: [[], () => [image, text("Please analyze the image above.")]],
};
server.setRequestHandler(t.ListPromptsRequestSchema, async () => ({
  prompts: Object.entries(prompts).map(([name, [names]]) => ({ name, description: `the prompt ${name}`, arguments: names.map((one) => ({ name: one, description: one, required: true })) })),
}));
server.setRequestHandler(t.GetPromptRequestSchema, async ({ params }) => ({
  messages: prompts[params.name][1](params.arguments ?? {}).map((content) => ({ role: "user", content })),
}));

process.stderr.write("server: ready\n");
await server.connect(new StdioServerTransport());
