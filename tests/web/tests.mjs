// What the web page promises to the person in front of it. Runs against the mock, or against a real pair when BASE_URL and
// TOKEN are set. Prints one line a test and ends with `N passed, M failed, K skipped`.
import assert from 'node:assert/strict';
import { openBrowser, openPage, until } from './browser.mjs';
import { startMock } from './mock_server.mjs';

const REAL = process.env.BASE_URL;
const TOKEN = process.env.TOKEN ?? 'mock-token';
if (REAL && !process.env.TOKEN) {
  console.error('BASE_URL is set but TOKEN is not: the tests need a token of the role admin.');
  process.exit(2);
}

class Skip extends Error {}
const tests = [];
const test = (name, run, options = {}) => tests.push({ name, run, ...options });
const unique = (stem) => `${stem}-${Date.now().toString(36)}${Math.floor(Math.random() * 1296).toString(36)}`;

/** A request to the API beside the page. */
async function api(env, method, path, body) {
  const response = await env.context.request.fetch(`${env.base}/api/v1${path}`, {
    method, data: body, headers: { Authorization: `Bearer ${TOKEN}` }, ignoreHTTPSErrors: true,
  });
  if (!response.ok()) throw new Error(`${method} ${path}: ${response.status()} ${await response.text()}`);
  return response.status() === 204 ? null : response.json();
}

const volumeNamed = async (env, name) => (await api(env, 'GET', '/volumes')).items.find((v) => v.name === name);

async function makeVolume(env, name, size_bytes = 64 * 2 ** 20) {
  await api(env, 'POST', '/volumes', { name, size_bytes });
  return until(`volume ${name} to be ready`, async () => {
    const volume = await volumeNamed(env, name);
    return volume?.lifecycle === 'ready' && volume;
  }, 60_000);
}

async function dropVolume(env, name) {
  const volume = await volumeNamed(env, name);
  if (volume && volume.lifecycle !== 'deleting') await api(env, 'DELETE', `/volumes/${volume.id}?confirm=${encodeURIComponent(name)}`);
}

async function signIn({ page }, token = TOKEN) {
  await page.goto('/');
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

async function enter(env, section = '/') {
  await env.context.addInitScript((t) => sessionStorage.setItem('lockstep.token', t), TOKEN);
  await env.page.goto(`/#${section}`);
  await until('the page to be connected', async () => /Live|Every/.test(await env.page.getByTestId('connection').innerText()));
}

const rowOf = (page, name) => page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });

test('a wrong token is refused in plain words and does not let in', async (env) => {
  await signIn(env, 'not-a-token');
  await env.page.getByText('This token is not valid', { exact: false }).waitFor();
  assert.equal(await env.page.getByRole('navigation', { name: 'Sections' }).count(), 0);
});

test('the right token lets in, and a reload of the tab does not ask again', async (env) => {
  await signIn(env);
  await env.page.getByTestId('health').waitFor();
  await env.page.reload();
  await env.page.getByTestId('health').waitFor();
  assert.equal(await env.page.getByLabel('Token').count(), 0);
});

test('the token is kept for this tab only', async (env) => {
  await signIn(env);
  await env.page.getByTestId('health').waitFor();
  const kept = await env.page.evaluate(() => [sessionStorage.getItem('lockstep.token'), Object.values({ ...localStorage }).join(), document.cookie]);
  assert.equal(kept[0], TOKEN);
  assert.ok(!kept[1].includes(TOKEN) && !kept[2].includes(TOKEN));
});

test('signing out asks for the token again', async (env) => {
  await enter(env);
  // enter() writes the token at every load; signing out must not need one.
  await env.page.getByRole('button', { name: 'Sign out' }).click();
  await env.page.getByLabel('Token').waitFor();
});

test('the overview tells health, both nodes, link and witness as the API does', async (env) => {
  await enter(env);
  const health = await api(env, 'GET', '/health');
  const nodes = (await api(env, 'GET', '/nodes')).items;
  const words = { ok: 'All is well', degraded: 'Degraded', critical: 'Needs you' };
  await until('the health to be shown', async () => (await env.page.getByTestId('health-status').innerText()) === words[health.status]);
  for (const problem of health.problems) assert.ok((await env.page.getByTestId('health').innerText()).includes(problem.message), problem.message);
  for (const node of nodes) {
    const card = env.page.getByTestId(`node-${node.side}`);
    assert.ok((await card.innerText()).includes(node.name));
    assert.ok((await card.innerText()).includes(node.addresses.portals[0]));
  }
  assert.match(await env.page.getByTestId('link').innerText(), nodes.every((n) => n.partner_link.connected) ? /Linked · (TCP|RDMA)/ : /Link lost|No partner/);
  assert.match(await env.page.getByTestId('witness').innerText(), /[Ww]itness/);
});

test('a path of the link is measured from the page, beside what hosts do', async (env) => {
  await enter(env);
  const { page } = env;
  await page.getByRole('button', { name: 'Measure path 1' }).click();
  const found = page.getByTestId('link-measurement-tcp');
  await found.waitFor({ timeout: 30_000 });
  assert.deepEqual(await found.locator('td:first-child').allInnerTexts(), ['64 B', '4 KiB', '64 KiB', '1 MiB']);
  const bandwidths = await found.locator('td:last-child').allInnerTexts();
  assert.ok(bandwidths.length === 4 && bandwidths.every((b) => /^[1-9][\d.]* [KMG]?i?B\/s$/.test(b)), bandwidths.join(', '));
});

test('why a path of the link is down and cannot be measured is told', async (env) => {
  await enter(env);
  const { page } = env;
  const row = page.getByTestId('link-path-2');
  assert.match(await page.getByTestId('link-carrier-a').textContent(), /node-a: TCP carries the data\. RDMA is off/);
  await row.getByText('Cannot connect: Connection refused.').first().waitFor();
  await page.getByRole('button', { name: 'Measure path 2' }).click();
  await page.getByText('Path 2 is down', { exact: false }).waitFor();
}, { mockOnly: true });

test('a lost partner is shown without a reload', async (env) => {
  await enter(env);
  await env.page.getByTestId('health-status').filter({ hasText: 'All is well' }).waitFor();
  env.mock.model.losePartner();
  await env.page.getByText('node-b is not reachable.').waitFor();
  await env.page.getByTestId('link').filter({ hasText: 'Link lost' }).waitFor();
  await env.page.getByTestId('node-b').getByText('Not reachable').waitFor();
}, { mockOnly: true });

test('a pair with a fence has it in its picture, and whether it works', async (env) => {
  const { model } = env.mock;
  model.pair.arbiter = { kind: 'fence', endpoints: null, user: null, client_certificate: false, preferred_side: null };
  for (const node of model.nodes) node.witness = { kind: 'fence', reachable: true };
  await enter(env);
  const picture = env.page.getByTestId('witness');
  await picture.filter({ hasText: 'Fence ready: who powers the other off goes on' }).waitFor();
  for (const [lost, words] of [['b', 'Fence of one node does not work'], ['a', 'Fence does not work']]) {
    const node = model.nodes.find((n) => n.side === lost);
    node.witness.reachable = false;
    model.tell('node', node);
    await picture.filter({ hasText: words }).waitFor();
  }
}, { mockOnly: true });

test('a node that refuses to tell is not shown as well, nor its paths as proven', async (env) => {
  const { page } = env;
  await page.route('**/events/stream', (route) => route.abort()); // it asks by itself
  await enter(env);
  await page.getByTestId('health-status').filter({ hasText: 'All is well' }).waitFor();
  await page.getByTestId('link-path-1').getByText('node-a: proven').waitFor();
  const problem = { type: 'urn:lockstep:problem:internal', title: 'Something failed', status: 500, detail: 'The disk is full.' };
  await page.route('**/api/v1/**', (route) =>
    route.fulfill({ status: 500, contentType: 'application/problem+json', body: JSON.stringify(problem) }));
  await page.getByTestId('health-status').filter({ hasText: 'Not known' }).waitFor({ timeout: 20_000 });
  await page.getByTestId('link-path-1').getByText('node-a: unknown').waitFor({ timeout: 20_000 });
}, { mockOnly: true });

test('forcing a copy says what it lacks before it asks for a second word', async (env) => {
  const { page } = env;
  const volume = await makeVolume(env, unique('old'));
  env.mock.model.losePartner();
  const replica = env.mock.model.volume(volume.id).replicas[0];
  Object.assign(replica, { state: 'waiting', serving: false, reason: 'This replica was set back in time: it lacks what was written since.' });
  await enter(env, `/volumes/${volume.id}`);
  await page.getByRole('region', { name: `Replica on ${replica.node}` }).getByRole('button', { name: 'Force to serve alone' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Although this copy is incomplete or old (--accept-inconsistent)').waitFor();
  await dialog.getByText('it lacks what was written since.', { exact: false }).waitFor();
}, { mockOnly: true });

test('creating a volume checks the name and the size before it asks', async (env) => {
  await enter(env, '/volumes');
  const { page } = env;
  await page.getByRole('button', { name: 'Create volume' }).first().click();
  const dialog = page.getByRole('dialog');
  const create = dialog.getByRole('button', { name: 'Create', exact: true });
  assert.ok(await create.isDisabled());
  await dialog.getByLabel('Name').fill('two words');
  await dialog.getByText('Letters, digits, dot', { exact: false }).waitFor();
  assert.ok(await create.isDisabled());
  await dialog.getByLabel('Name').fill(unique('fine'));
  assert.ok(await create.isEnabled());
  await dialog.getByLabel('Size', { exact: false }).first().fill('65');
  await dialog.getByLabel('Unit of the size').selectOption('TiB');
  await dialog.getByText('At most 64 TiB.').waitFor();
  assert.ok(await create.isDisabled());
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
});

test('a volume that is created is seen in the list, with its size, in sync on both nodes', async (env) => {
  await enter(env, '/volumes');
  const { page } = env;
  const name = unique('made');
  await page.getByRole('button', { name: 'Create volume' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill(name);
  await dialog.locator('#volume-size').fill('96');
  await dialog.getByLabel('Unit of the size').selectOption('MiB');
  await dialog.getByRole('button', { name: 'Create', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  const row = rowOf(page, name);
  await row.waitFor();
  assert.ok((await row.innerText()).includes('96 MiB'));
  const nodes = (await api(env, 'GET', '/nodes')).items.length;
  const state = nodes === 2 ? 'In sync' : 'Serving';
  await until('it to be ready', async () => (await row.innerText()).split(state).length > (nodes === 2 ? 2 : 1), 60_000);
  assert.equal((await volumeNamed(env, name)).size_bytes, 96 * 2 ** 20);
  await dropVolume(env, name);
});

test('a new volume is closed until any initiator is let in aloud', async (env) => {
  await enter(env, '/volumes');
  const { page } = env;
  const name = unique('closed');
  await page.getByRole('button', { name: 'Create volume' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill(name);
  await dialog.locator('#volume-size').fill('8');
  await dialog.getByLabel('Unit of the size').selectOption('MiB');
  await dialog.getByText('nobody may use it yet', { exact: false }).or(dialog.getByText('Nobody may use it yet', { exact: false })).first().waitFor();
  await dialog.getByRole('button', { name: 'Create', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  const volume = await until('it to be there', () => volumeNamed(env, name));
  assert.deepEqual([volume.any_initiator, volume.access], [false, []]);
  await until('it to be ready', async () => (await volumeNamed(env, name)).lifecycle === 'ready', 60_000);
  await page.goto(`/#/volumes/${volume.id}`);
  await page.getByText('Nobody may use this volume yet', { exact: false }).waitFor();
  await page.getByRole('region', { name: 'Access' }).getByRole('button', { name: 'Change' }).click();
  await page.getByRole('dialog').locator('#access-any').check();
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await page.getByText('Any initiator may use this volume.').waitFor();
  assert.equal((await volumeNamed(env, name)).any_initiator, true);
  await dropVolume(env, name);
});

test('a volume has the shape that the dialog asked for, and how it is used can be changed', async (env) => {
  await enter(env, '/volumes');
  const { page } = env;
  const name = unique('shape');
  await page.getByRole('button', { name: 'Create volume' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill(name);
  await dialog.locator('#volume-size').fill('8');
  await dialog.getByLabel('Unit of the size').selectOption('MiB');
  assert.ok(await dialog.getByLabel('512 bytes on 4096 (512e)').isChecked());
  await dialog.getByLabel('4096 bytes (4Kn)').check();
  await dialog.getByLabel('Thin').uncheck();
  await dialog.getByLabel('Read-only').check();
  await dialog.getByLabel('Shown as removable').check();
  assert.ok(!await dialog.getByLabel("Encrypted on each node's disk").isChecked());
  await dialog.getByLabel("Encrypted on each node's disk").check();
  await dialog.getByRole('button', { name: 'Create', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await until('the volume to be made', async () => (await volumeNamed(env, name))?.lifecycle === 'ready', 60_000);
  let volume = await volumeNamed(env, name);
  assert.deepEqual(
    [volume.block_format, volume.block_size_bytes, volume.thin, volume.read_only, volume.removable, volume.encrypted, volume.write_cache],
    ['4kn', 4096, false, true, true, true, false]);
  await page.getByRole('link', { name, exact: true }).click();
  await page.getByText("4kn blocks · encrypted on each node's disk · read-only · write cache off", { exact: false }).waitFor();
  await page.getByRole('button', { name: 'Change use' }).click();
  await dialog.getByLabel('Read-only').uncheck();
  assert.equal(await dialog.getByText('device/rescan', { exact: false }).count(), 0);
  await dialog.getByLabel('Write cache').check();
  await dialog.getByText('device/rescan', { exact: false }).waitFor(); // hosts would lose fsyncs
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('read and write · write cache on', { exact: false }).waitFor();
  volume = await volumeNamed(env, name);
  assert.deepEqual([volume.read_only, volume.write_cache], [false, true]);
  await dropVolume(env, name);
});

test('a volume is made larger while it is in use, and is never asked to become smaller', async (env) => {
  const { page } = env;
  const volume = await makeVolume(env, unique('grows'));
  await until('it to be in sync', async () => (await volumeNamed(env, volume.name)).health === 'ok', 60_000);
  await enter(env, `/volumes/${volume.id}`);
  await page.getByRole('button', { name: 'Grow', exact: true }).click();
  const dialog = page.getByRole('dialog');
  const grow = dialog.getByRole('button', { name: 'Grow', exact: true });
  const number = dialog.getByLabel('New size');
  assert.ok(await grow.isDisabled());
  await dialog.getByText('It has 64 MiB now.', { exact: false }).waitFor();
  for (const [less, why] of [['63.5', 'More than the 64 MiB that it has.'], ['64', 'More than the 64 MiB that it has.'], ['much', 'A number, such as 10 or 1.5.']]) {
    await number.fill(less);
    await dialog.getByText(why).waitFor();
    assert.ok(await grow.isDisabled(), less);
  }
  await number.fill('96');
  await grow.click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('96 MiB · thin', { exact: false }).waitFor({ timeout: 60_000 });
  assert.equal((await volumeNamed(env, volume.name)).size_bytes, 96 * 2 ** 20);
  await page.getByRole('link', { name: 'Jobs', exact: true }).click();
  await page.getByRole('row').filter({ hasText: 'Grow volume' }).filter({ hasText: `${volume.name} has ` }).filter({ hasText: 'Done' }).first().waitFor();
  await dropVolume(env, volume.name);
});

test('why a volume cannot grow now is told in the dialog', async (env) => {
  const { page } = env;
  const volume = await makeVolume(env, unique('alone'));
  env.mock.model.losePartner();
  await enter(env, `/volumes/${volume.id}`);
  await page.getByRole('button', { name: 'Grow', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('New size').fill('128');
  await dialog.getByRole('button', { name: 'Grow', exact: true }).click();
  await dialog.getByText(`Both nodes must be in sync before ${volume.name} grows.`).waitFor();
  assert.equal((await volumeNamed(env, volume.name)).size_bytes, 64 * 2 ** 20);
}, { mockOnly: true });

test('a refusal by the server stands at the field it is about', async (env) => {
  const taken = await makeVolume(env, unique('taken'));
  await enter(env, '/volumes');
  const { page } = env;
  await rowOf(page, taken.name).waitFor();
  await page.getByRole('button', { name: 'Create volume' }).first().click();
  const dialog = page.getByRole('dialog');
  const name = unique('raced');
  await dialog.getByLabel('Name').fill(name);
  // Another client takes the name between the check here and the request.
  await page.route('**/api/v1/volumes', (route) =>
    route.request().method() === 'POST'
      ? route.fulfill({
          status: 409, contentType: 'application/problem+json',
          body: JSON.stringify({ type: 'urn:lockstep:problem:conflict', title: 'The name is taken', status: 409, detail: 'Choose another name.', errors: [{ pointer: '/name', detail: 'Somebody was faster.' }] }),
        })
      : route.fallback());
  await dialog.getByRole('button', { name: 'Create', exact: true }).click();
  await dialog.getByText('The name is taken').waitFor();
  await dialog.getByText('Somebody was faster.').waitFor();
  await dropVolume(env, taken.name);
});

test('resync progress moves by itself, and its figures are told', async (env) => {
  const { page } = env;
  const volume = env.mock ? await makeVolume(env, unique('resync'), 2 ** 33)
    : (await api(env, 'GET', '/volumes')).items.find((v) => v.replicas.some((r) => r.resync.running));
  if (!volume) throw new Skip('no volume of this pair is being resynced right now');
  const { name } = volume;
  await enter(env, '/volumes');
  env.mock?.model.startResync(volume.id, { total: 2 ** 31, rate: 200 * 2 ** 20 });
  const bar = page.getByRole('progressbar', { name: `Resync of ${name}` });
  await bar.waitFor();
  const value = async () => Number(await bar.getAttribute('aria-valuenow'));
  const first = await value();
  const second = await until('the bar to move', async () => ((await value()) > first ? value() : null));
  await until('the bar to move again', async () => (await bar.count()) === 0 || (await value()) > second);
  if (!env.mock) return;
  await bar.waitFor({ state: 'detached' });
  await until('both replicas to be in sync', async () => (await rowOf(page, name).innerText()).split('In sync').length > 3);
});

test('without an event stream the page asks by itself and still moves', async (env) => {
  const volume = await makeVolume(env, unique('polled'), 2 ** 33);
  env.mock.model.startResync(volume.id, { total: 2 ** 32, rate: 100 * 2 ** 20 });
  await env.page.route('**/events/stream', (route) => route.abort());
  await enter(env, '/volumes');
  await until('the page to say that it polls', async () => (await env.page.getByTestId('connection').innerText()).includes('Every 2 s'));
  const bar = env.page.getByRole('progressbar', { name: `Resync of ${volume.name}` });
  const first = Number(await bar.getAttribute('aria-valuenow'));
  await until('the bar to move', async () => Number(await bar.getAttribute('aria-valuenow')) > first);
}, { mockOnly: true });

test('a volume is deleted only after its name was typed', async (env) => {
  const { page } = env;
  const volume = await makeVolume(env, unique('doomed'));
  await enter(env, '/volumes');
  await page.getByRole('button', { name: `Delete ${volume.name}` }).click();
  const dialog = page.getByRole('dialog');
  const remove = dialog.getByRole('button', { name: 'Delete', exact: true });
  assert.ok(await remove.isDisabled());
  const field = dialog.getByLabel(`Type ${volume.name} to confirm`);
  await field.fill(volume.name.slice(0, -1));
  assert.ok(await remove.isDisabled());
  assert.ok(await volumeNamed(env, volume.name));
  await field.fill(volume.name);
  assert.ok(await remove.isEnabled());
  await remove.click();
  await dialog.waitFor({ state: 'detached' });
  await rowOf(page, volume.name).waitFor({ state: 'detached', timeout: 60_000 });
  assert.equal(await volumeNamed(env, volume.name), undefined);
});

test('a volume’s own page shows both replicas and what a host connects to', async (env) => {
  const volume = await makeVolume(env, unique('detail'));
  await enter(env, `/volumes/${volume.id}`);
  const { page } = env;
  await page.getByRole('heading', { level: 1, name: volume.name }).waitFor();
  for (const replica of volume.replicas) await page.getByRole('region', { name: `Replica on ${replica.node}` }).waitFor();
  assert.equal(await page.getByLabel('target name', { exact: true }).inputValue(), volume.target_name);
  for (const portal of volume.portals) await until(`portal ${portal.address}`, async () => (await page.locator(`input[value="${portal.address}"]`).count()) > 0);
  await dropVolume(env, volume.name);
});

test('an initiator is added with a secret that is never shown, and removed', async (env) => {
  await enter(env, '/initiators');
  const { page } = env;
  const iqn = `iqn.2026-11.org.example:${unique('host')}`;
  await page.getByRole('button', { name: 'Add initiator' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill(iqn);
  await dialog.getByLabel('CHAP', { exact: true }).check();
  await dialog.getByLabel('User').fill('host');
  await dialog.getByLabel('Secret').fill('short');
  await dialog.getByText('At least 12 characters.').waitFor();
  await dialog.getByLabel('Secret').fill('a long enough secret');
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByText(iqn).waitFor();
  assert.ok(!(await page.content()).includes('a long enough secret'));
  await page.getByRole('button', { name: `Remove ${iqn}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
  await page.getByRole('row').filter({ hasText: iqn }).waitFor({ state: 'detached' });
});

test('jobs and events of a new volume are listed', async (env) => {
  const volume = await makeVolume(env, unique('told'));
  await enter(env, '/jobs');
  await env.page.getByRole('row').filter({ hasText: 'Create volume' }).filter({ hasText: 'Done' }).first().waitFor();
  await env.page.getByRole('link', { name: 'Events', exact: true }).click();
  await env.page.getByRole('listitem').filter({ hasText: volume.name }).first().waitFor();
  await dropVolume(env, volume.name);
});

test('an event that happened often says how often', async (env) => {
  env.mock.model.log('session.refused', 'warning', 'a', null, 'iqn.2026-11.test:stranger was refused.', 1791);
  await enter(env, '/events');
  await env.page.getByRole('listitem').filter({ hasText: 'stranger was refused.' }).filter({ hasText: '1,791 times' }).waitFor();
});

test('the theme follows the system, and the button turns it', async (env) => {
  const { page } = env;
  const dark = () => page.evaluate(() => document.documentElement.classList.contains('pf-v6-theme-dark'));
  const ground = () => page.evaluate(() => getComputedStyle(document.querySelector('.pf-v6-c-page__main-container')).backgroundColor);
  await enter(env);
  assert.equal(await dark(), false);
  const light = await ground();
  await page.getByRole('button', { name: 'Use the dark theme' }).click();
  await until('the dark theme', dark);
  assert.notEqual(await ground(), light);
  await page.reload();
  await until('the choice to be kept', dark);
  await page.getByRole('button', { name: 'Use the light theme' }).click();
  await until('the light theme', async () => !(await dark()));
  await page.emulateMedia({ colorScheme: 'dark' });
  await until('the system’s wish to be followed again', dark);
});

test('when the node stops answering the page says so, keeps what it knew, and comes back by itself', async (env) => {
  const { page } = env;
  const volume = await makeVolume(env, unique('kept'));
  await enter(env, '/volumes');
  await rowOf(page, volume.name).waitFor();
  if (env.mock) {
    await env.mock.stop();
    await page.getByTestId('api-down').waitFor();
    assert.ok(await rowOf(page, volume.name).isVisible());
    assert.equal((await page.getByTestId('connection').innerText()).trim(), 'Disconnected');
    env.mock = await startMock({ port: env.mock.port, token: TOKEN });
  } else {
    await dropVolume(env, volume.name);
    await page.route('**/api/**', (route) => route.abort());
    await page.reload(); // ends the open stream
    await page.getByTestId('api-down').waitFor();
    await page.unroute('**/api/**');
  }
  await page.getByTestId('api-down').waitFor({ state: 'detached' });
  await until('the connection to be back', async () => /Live|Every/.test(await page.getByTestId('connection').innerText()));
});

test('a node that stands still is not taken for one to which nothing happens', async (env) => {
  const { page } = env;
  await enter(env);
  const word = async () => (await page.getByTestId('health-status').innerText()).trim();
  assert.notEqual(await word(), 'Not known');
  await page.route('**/api/**', () => {}); // the open stream stays open, and nothing is answered
  await page.getByTestId('api-down').waitFor({ timeout: 8_000 });
  assert.equal((await page.getByTestId('connection').innerText()).trim(), 'Disconnected');
  assert.equal(await word(), 'Not known');
  await page.unroute('**/api/**');
  await page.getByTestId('api-down').waitFor({ state: 'detached' });
  await until('the health to be told', async () => (await word()) !== 'Not known');
});

test('a token that is revoked leads back to the sign-in page, with the reason', async (env) => {
  await enter(env);
  await env.page.route('**/api/**', (route) =>
    route.fulfill({ status: 401, contentType: 'application/problem+json', body: JSON.stringify({ type: 'urn:lockstep:problem:unauthorized', title: 'This token is not known', status: 401, detail: 'This token was revoked.' }) }));
  await env.page.reload();
  await env.page.getByLabel('Token').waitFor();
  await env.page.getByText('This token was revoked.').waitFor();
});

test('on a phone nothing is cut off at the side', async (env) => {
  await env.page.setViewportSize({ width: 390, height: 844 });
  const volume = await makeVolume(env, unique('phone-with-a-rather-long-name'));
  for (const section of ['/', '/volumes', `/volumes/${volume.id}`, '/initiators', '/jobs', '/events']) {
    await enter(env, section);
    await env.page.getByRole('heading', { level: 1 }).first().waitFor({ state: 'attached' });
    const excess = await env.page.evaluate(() => {
      const main = document.querySelector('.pf-v6-c-page__main');
      return Math.max(document.documentElement.scrollWidth - window.innerWidth, main.scrollWidth - main.clientWidth);
    });
    assert.ok(excess <= 0, `${section} is ${excess} px too wide`);
  }
  await dropVolume(env, volume.name);
});

test('every button and field has a name, and every section one main heading', async (env) => {
  const volume = await makeVolume(env, unique('named'));
  for (const section of ['/', '/volumes', `/volumes/${volume.id}`, '/initiators', '/jobs', '/events']) {
    await enter(env, section);
    await env.page.getByRole('heading', { level: 1 }).first().waitFor({ state: 'attached' });
    const nameless = await env.page.evaluate(() =>
      [...document.querySelectorAll('button, input, select, a[href]')]
        .filter((e) => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim() || e.labels?.length))
        .map((e) => e.outerHTML.slice(0, 120)));
    assert.deepEqual(nameless, [], section);
    assert.equal(await env.page.getByRole('heading', { level: 1 }).count(), 1, section);
  }
  await dropVolume(env, volume.name);
});

const browser = await openBrowser();
const tally = { passed: 0, failed: 0, skipped: 0 };
const only = process.argv[2];
for (const { name, run, mockOnly } of tests.filter((t) => !only || t.name.includes(only))) {
  if (REAL && mockOnly) {
    tally.skipped++;
    console.log(`skip  ${name} (only against the mock)`);
    continue;
  }
  const mock = REAL ? null : await startMock({ token: TOKEN });
  const base = (REAL ?? mock.url).replace(/\/$/, '');
  const env = { base, mock, ...(await openPage(browser, base)) };
  try {
    await run(env);
    assert.deepEqual(env.seen.errors, [], 'errors in the page');
    assert.deepEqual(env.seen.foreign, [], 'requests to other hosts');
    tally.passed++;
    console.log(`ok    ${name}`);
  } catch (e) {
    if (e instanceof Skip) {
      tally.skipped++;
      console.log(`skip  ${name} (${e.message})`);
    } else {
      tally.failed++;
      console.log(`FAIL  ${name}\n      ${String(e.stack ?? e).split('\n').slice(0, 12).join('\n      ')}`);
      if (process.env.SHOTS) await env.page.screenshot({ path: `${process.env.SHOTS}/fail-${tally.failed}.png` }).catch(() => undefined);
    }
  } finally {
    await env.context.close();
    await env.mock?.stop();
  }
}
await browser.close();
console.log(`${tally.passed} passed, ${tally.failed} failed${tally.skipped ? `, ${tally.skipped} skipped` : ''}`);
process.exit(tally.failed > 0 || tally.passed === 0 ? 1 : 0);
