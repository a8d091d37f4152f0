// Saves a picture of the page.
//   BASE_URL=https://127.0.0.1:8443 TOKEN=... node screenshot.mjs OUT.png [PATH] [light|dark] [WIDTHxHEIGHT]
// PATH is what stands after `#` in the address, such as /volumes. Without BASE_URL a mock pair with demonstration volumes is shown.
import { openBrowser, openPage, until } from './browser.mjs';
import { startMock } from './mock_server.mjs';

const [out, path = '/', theme = 'light', size = '1280x860'] = process.argv.slice(2);
if (!out) {
  console.error('usage: [BASE_URL=URL TOKEN=TOKEN] node screenshot.mjs OUT.png [PATH] [light|dark] [WIDTHxHEIGHT]');
  process.exit(2);
}
const [width, height] = size.split('x').map(Number);
const mock = process.env.BASE_URL ? null : await startMock({ demo: true });
const base = process.env.BASE_URL ?? mock.url;
const token = process.env.TOKEN ?? 'mock-token';

const browser = await openBrowser();
try {
  const { context, page } = await openPage(browser, base, {
    colorScheme: theme, viewport: { width, height }, deviceScaleFactor: 2, isMobile: width < 600,
  });
  await context.addInitScript((t) => sessionStorage.setItem('lockstep.token', t), token);
  const volume = /^\/volumes\/name:(.+)$/.exec(path);
  await page.goto(volume ? '/#/volumes' : `/#${path}`);
  if (volume) await page.getByRole('link', { name: volume[1], exact: true }).click();
  if (path !== '/login') {
    await page.getByTestId('connection').waitFor();
    await until('the first answer', async () => !['Connecting'].includes((await page.getByTestId('connection').innerText()).trim()));
  }
  await page.evaluate(() => document.fonts.ready);
  await page.waitForLoadState('networkidle', { timeout: 1500 }).catch(() => undefined); // the event stream keeps it busy
  await page.screenshot({ path: out, fullPage: process.env.FULL === '1' });
} finally {
  await browser.close();
  await mock?.stop();
}
