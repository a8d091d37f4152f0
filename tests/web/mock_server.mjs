// Plays a pair's REST API (ui-api/openapi/lockstep.yaml) for the web page's development and for tests, and serves the
// built page beside it. Node's standard library only.
//   node mock_server.mjs [--port 0] [--token secret] [--demo] [--no-stream]
// Prints one line, the address, when it listens. What a test wants to happen it posts to /mock/...: resync, lose-partner, down.
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Model, Refusal } from './mock_model.mjs';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2' };

function send(response, status, body, headers = {}) {
  const type = status >= 400 ? 'application/problem+json' : 'application/json';
  response.writeHead(status, { ...(body === undefined ? {} : { 'Content-Type': type }), 'Cache-Control': 'no-store', ...headers });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}

const accepted = (response, job) => send(response, 202, job, { Location: `/api/v1/jobs/${job.id}` });

async function readBody(request) {
  let text = '';
  for await (const chunk of request) text += chunk;
  try {
    return text === '' ? {} : JSON.parse(text);
  } catch (e) {
    throw new Refusal(400, 'malformed', 'The body is not JSON', String(e.message));
  }
}

async function servePage(response, pathname) {
  const dist = path.join(ROOT, 'ui-api/web/dist');
  const file = path.join(dist, pathname === '/' ? 'index.html' : path.normalize(pathname));
  const found = file.startsWith(dist) && (await stat(file).catch(() => null))?.isFile();
  if (!found) throw new Refusal(404, 'not-found', 'There is no such path', `${pathname} is not part of the page or the API.`);
  response.writeHead(200, {
    'Content-Type': TYPES[path.extname(file)] ?? 'application/octet-stream',
    'Content-Security-Policy': "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  });
  createReadStream(file).pipe(response);
}

function stream(model, request, response) {
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  const write = (name, item, id) => response.write(`event: ${name}\n${id ? `id: ${id}\n` : ''}data: ${JSON.stringify(item)}\n\n`);
  for (const node of model.nodeList()) write('node', node);
  for (const volume of model.volumes) write('volume', volume);
  for (const job of model.jobs.filter((j) => j.finished_at === null)) write('job', job);
  const last = request.headers['last-event-id'];
  if (last !== undefined) for (const e of model.events.filter((x) => x.id > Number(last))) write('event', e, e.id);
  const comment = setInterval(() => response.write(': still here\n\n'), 15_000);
  model.listeners.add(write);
  response.on('close', () => {
    clearInterval(comment);
    model.listeners.delete(write);
  });
}

// Every path of the API: [method, pattern, what it does with (context, ...the pattern's groups)].
const ROUTES = [
  ['GET', /^\/pair$/, ({ model, reply }) => reply(200, model.pair)],
  ['POST', /^\/pair\/invitations$/, ({ reply }) => reply(201, { invitation: 'lsi1.bW9jaw.c2VjcmV0', expires_at: new Date(Date.now() + 900_000).toISOString() })],
  ['GET', /^\/pair\/link$/, ({ model, reply }) => reply(200, model.link())],
  ['POST', /^\/pair\/link\/measurement$/, ({ model, body, reply }) => reply(200, model.measurePath(body))],
  ['GET', /^\/nodes$/, ({ model, reply }) => reply(200, { items: model.nodeList() })],
  ['GET', /^\/sessions$/, ({ model, reply }) => reply(200, { items: model.sessions() })],
  ['GET', /^\/health$/, ({ model, reply }) => reply(200, model.health())],
  ['GET', /^\/volumes$/, ({ model, reply }) => reply(200, { items: model.volumes })],
  ['POST', /^\/volumes$/, ({ model, body, accept }) => accept(model.createVolume(body))],
  ['GET', /^\/volumes\/([^/]+)$/, ({ model, reply }, id) => reply(200, model.volume(id))],
  ['PATCH', /^\/volumes\/([^/]+)$/, ({ model, body, reply, accept }, id) =>
    'size_bytes' in body ? accept(model.growVolume(id, body)) : reply(200, model.changeVolume(id, body))],
  ['DELETE', /^\/volumes\/([^/]+)$/, ({ model, query, accept }, id) => accept(model.deleteVolume(id, query.get('confirm')))],
  ['POST', /^\/volumes\/([^/]+)\/actions$/, ({ model, body, accept }, id) => accept(model.act(id, body))],
  ['GET', /^\/initiators$/, ({ model, reply }) => reply(200, { items: model.initiators.map((i) => model.initiator(i.iqn)) })],
  ['POST', /^\/initiators$/, ({ model, body, reply }) => reply(201, model.createInitiator(body), { Location: `/api/v1/initiators/${body.iqn}` })],
  ['GET', /^\/initiators\/([^/]+)$/, ({ model, reply }, iqn) => reply(200, model.initiator(iqn))],
  ['DELETE', /^\/initiators\/([^/]+)$/, ({ model, reply }, iqn) => (model.deleteInitiator(iqn), reply(204))],
  ['GET', /^\/jobs$/, ({ model, reply }) => reply(200, { items: model.jobs })],
  ['GET', /^\/jobs\/([^/]+)$/, ({ model, reply }, id) => {
    const job = model.jobs.find((j) => j.id === id);
    if (!job) throw new Refusal(404, 'not-found', 'There is no such job', 'It may have ended long ago.');
    reply(200, job);
  }],
  ['GET', /^\/events$/, ({ model, query, reply }) => {
    const limit = Number(query.get('limit') ?? 100);
    const after = query.get('after');
    reply(200, { items: after === null ? model.events.slice(-limit) : model.events.filter((e) => e.id > Number(after)).slice(0, limit) });
  }],
  ['GET', /^\/tokens$/, ({ model, reply }) => reply(200, { items: model.tokens })],
  ['POST', /^\/tokens$/, ({ model, body, reply }) => reply(201, model.createToken(body))],
  ['DELETE', /^\/tokens\/([^/]+)$/, ({ model, reply }, id) => (model.deleteToken(id), reply(204))],
];

/** What a test wants to happen. */
const MOCK = {
  'resync': (model, body) => model.startResync(body.volume_id, body),
  'lose-partner': (model) => model.losePartner(),
};

export function startMock({ port = 0, token = 'mock-token', demo = false, streaming = true } = {}) {
  const model = new Model({ demo });
  const handle = async (request, response) => {
    const { pathname, searchParams: query } = new URL(request.url, 'http://mock');
    const mock = /^\/mock\/(.+)$/.exec(pathname);
    if (mock && MOCK[mock[1]]) return send(response, 200, { done: MOCK[mock[1]](model, await readBody(request)) ?? null });
    const api = /^\/api\/v1(\/.*)$/.exec(pathname);
    if (!api) return servePage(response, pathname);
    if (request.headers.authorization !== `Bearer ${token}`) {
      throw new Refusal(401, 'unauthorized', 'This token is not known', 'Send a valid token as "Authorization: Bearer <token>".');
    }
    if (api[1] === '/events/stream' && streaming) return stream(model, request, response);
    const reply = (status, body, headers) => send(response, status, body, headers);
    const context = { model, query, reply, accept: (job) => accepted(response, job), body: undefined };
    if (request.method !== 'GET') context.body = await readBody(request);
    for (const [method, pattern, act] of ROUTES) {
      const match = pattern.exec(api[1]);
      if (match && method === request.method) return act(context, ...match.slice(1).map(decodeURIComponent));
    }
    throw new Refusal(404, 'not-found', 'There is no such path', `${request.method} ${pathname} is not part of the API.`);
  };
  const server = http.createServer((request, response) => {
    handle(request, response).catch((e) => {
      if (e instanceof Refusal) return send(response, e.problem.status, e.problem);
      console.error(e);
      send(response, 500, { type: 'urn:lockstep:problem:internal', title: 'The mock has a defect', status: 500, detail: String(e) });
    });
  });
  return new Promise((resolve, reject) => {
    server.on('error', reject);
    server.listen(port, '127.0.0.1', () => {
      const stop = () => new Promise((done) => {
        model.stop();
        server.close(done);
        server.closeAllConnections();
      });
      resolve({ url: `http://127.0.0.1:${server.address().port}`, port: server.address().port, model, stop });
    });
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: { port: { type: 'string', default: '0' }, token: { type: 'string', default: 'mock-token' }, demo: { type: 'boolean', default: false }, 'no-stream': { type: 'boolean', default: false } },
  });
  const { url } = await startMock({ port: Number(values.port), token: values.token, demo: values.demo, streaming: !values['no-stream'] });
  console.log(url);
}
