import { defineConfig, type Plugin } from "vite";

/** The page may ask its own host and nobody else. While developing, vite itself needs more. */
const policy: Plugin = {
  name: "policy",
  apply: "build",
  transformIndexHtml: () => [{
    tag: "meta",
    attrs: {
      "http-equiv": "Content-Security-Policy",
      content: "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'",
    },
    injectTo: "head-prepend",
  }],
};

// The pages are served at /, below any path of a proxy too, and ask their own host alone.
export default defineConfig({
  base: "./",
  plugins: [policy],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    // Nothing becomes a data: address, which a content security policy would have to allow.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: {
    proxy: {
      "/v1": "http://127.0.0.1:9464",
      "/server.json": "http://127.0.0.1:9464",
      "/metrics": "http://127.0.0.1:9464",
    },
  },
});
