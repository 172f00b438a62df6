import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// One script and one style sheet with names that stay: the server tells a browser by ETag whether they changed.
export default defineConfig({
  plugins: [svelte()],
  base: "./",
  build: {
    outDir: "../src/tidelog/console/static",
    emptyOutDir: true,
    sourcemap: false,
    target: "es2022",
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        codeSplitting: false,
        entryFileNames: "console.js",
        assetFileNames: "console[extname]",
      },
    },
  },
  server: { proxy: { "/api": process.env.TIDELOG_CONSOLE ?? "http://127.0.0.1:8787" } },
});
