// Chromium as the tests and the screenshots use it: Debian's, headless, talking to nobody but the page.
import { chromium } from 'playwright-core';

export async function openBrowser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    args: [
      '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync',
    ],
  });
}

/** A fresh profile with one page. Requests to other hosts than the page's own fail and are remembered. */
export async function openPage(browser, baseUrl, options = {}) {
  const context = await browser.newContext({
    baseURL: baseUrl, ignoreHTTPSErrors: true, viewport: { width: 1280, height: 860 }, colorScheme: 'light', reducedMotion: 'reduce', ...options,
  });
  const page = await context.newPage();
  const seen = { foreign: [], errors: [] };
  const own = new URL(baseUrl).host;
  await context.route((url) => url.host !== own && url.protocol.startsWith('http'), (route) => {
    seen.foreign.push(route.request().url());
    return route.abort();
  });
  page.on('pageerror', (e) => seen.errors.push(String(e)));
  page.setDefaultTimeout(Number(process.env.WEB_TIMEOUT_MS ?? 15_000));
  return { context, page, seen };
}

/** Waits for `check` to be true; the message says what was waited for in vain. */
export async function until(what, check, timeoutMs = 20_000) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited ${timeoutMs / 1000} s in vain for: ${what}`);
    await new Promise((wake) => setTimeout(wake, 100));
  }
}
