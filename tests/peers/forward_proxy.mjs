// Runs the npm package proxy, and prints each tunnel that is asked for. Usage: node forward_proxy.mjs PACKAGES
import http from "node:http";
const { createProxy } = await import(`file://${process.argv[2]}/proxy/dist/proxy.js`);
const server = createProxy(http.createServer());
server.prependListener("connect", (request) => console.log(`tunnel ${request.url}`));
server.prependListener("request", (request) => console.log(`request ${request.url}`));
server.listen(0, "127.0.0.1", () => console.log(`listening ${server.address().port}`));
