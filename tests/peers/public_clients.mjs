// Clients from npm: `node public_clients.mjs FOLDER NAME URL` lists the hub's tools with one, and calls one of them.
// Prints one JSON object: how many tools the client sees, and its result as text.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, name, url] = process.argv.slice(2);
const modules = join(folder, "node_modules");
const require = createRequire(join(folder, "package.json"));
const load = (id) => import(pathToFileURL(require.resolve(id)).href);
const TOOL = "echo";
const ARGUMENTS = { message: "hello" };

const clients = {
  "@modelcontextprotocol/sdk": async () => {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client({ name: "peer", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    const { tools } = await client.listTools();
    const result = await client.callTool({ name: TOOL, arguments: ARGUMENTS });
    await client.close();
    return [tools.length, result];
  },
  "@ai-sdk/mcp": async () => {
    const { experimental_createMCPClient, createMCPClient } = await load("@ai-sdk/mcp");
    const make = createMCPClient ?? experimental_createMCPClient;
    const client = await make({ transport: { type: "http", url } });
    const tools = await client.tools();
    const result = await tools[TOOL].execute(ARGUMENTS, { toolCallId: "1", messages: [] });
    await client.close();
    return [Object.keys(tools).length, result];
  },
  "@modelcontextprotocol/inspector": async () => {
    const run = (...words) => {
      const cli = join(modules, "@modelcontextprotocol/inspector/cli/build/cli.js");
      const done = spawnSync(process.execPath, [cli, "--cli", url, "--transport", "http", ...words]);
      if (done.status !== 0) throw new Error(String(done.stderr));
      return JSON.parse(String(done.stdout));
    };
    const { tools } = run("--method", "tools/list");
    const result = run("--method", "tools/call", "--tool-name", TOOL, "--tool-arg", "message=hello");
    return [tools.length, result];
  },
  mcporter: async () => {
    const cli = join(modules, "mcporter/dist/cli.js");
    const run = (...words) => {
      const done = spawnSync(process.execPath, [cli, ...words]);
      if (done.status !== 0) throw new Error(String(done.stderr));
      return String(done.stdout);
    };
    const listed = JSON.parse(run("list", url, "--allow-http", "--json"));
    const result = run("call", "--allow-http", "--http-url", url, TOOL, "message:hello");
    return [(listed.tools ?? listed.servers[0].tools).length, result];
  },
};

const [tools, result] = await clients[name]();
console.log(JSON.stringify({ tools, result: JSON.stringify(result) }));
process.exit(0);
