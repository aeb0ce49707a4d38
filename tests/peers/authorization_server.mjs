// Runs the npm package oidc-provider: short-lived tokens for one resource, refresh tokens that rotate, and reuse of a
// spent one revokes the whole grant. Usage: node authorization_server.mjs PORT RESOURCE LIFETIME_S CLOCK_OFF_S PACKAGES
const [port, resource, lifetime, clockOff, packages] = process.argv.slice(2);
const off = Number(clockOff) * 1000;
const now = Date.now;
Date.now = () => now() + off;
const { Provider } = await import(`file://${packages}/oidc-provider/lib/index.js`);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  scopes: ["openid", "offline_access", "read"],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  clientDefaults: { token_endpoint_auth_method: "none", id_token_signed_response_alg: "RS256" },
  cookies: { keys: ["for tests alone"] },
  ttl: { AccessToken: Number(lifetime), RefreshToken: 86400, Grant: 86400, Session: 86400, Interaction: 600 },
  findAccount: async (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true, allowedPolicy: () => true },
    deviceFlow: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: "read",
        audience: resource,
        accessTokenTTL: Number(lifetime),
        accessTokenFormat: "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
});
provider.on("server_error", (ctx, error) => console.error(error));
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
