import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';
import { licenses } from './licenses';

// `npm run dev` needs a server for /api: LOCKSTEP_SERVER=http://127.0.0.1:PORT (tests/web/mock_server.mjs, or a node).
export default defineConfig({
  plugins: [react(), licenses('third-party-licenses.txt')],
  base: './',
  build: { chunkSizeWarningLimit: 1000, assetsInlineLimit: 0 },
  server: { proxy: { '/api': { target: process.env.LOCKSTEP_SERVER ?? 'http://127.0.0.1:8080', secure: false } } },
});
