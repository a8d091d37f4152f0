// The pair that the mock server plays: its state, and how it moves. No HTTP here.
import { randomBytes, randomUUID } from 'node:crypto';

const GIB = 2 ** 30;
const now = () => new Date().toISOString();
const IQN = /^(iqn\.\d{4}-(0[1-9]|1[0-2])\.[a-z0-9.-]+(:[a-z0-9.:-]+)?|eui\.[0-9a-f]{16}|naa\.([0-9a-f]{16}|[0-9a-f]{32}))$/;
const PORTALS = { a: '10.0.0.11:3260', b: '10.0.0.12:3260' };

export class Refusal extends Error {
  constructor(status, kind, title, detail, errors) {
    super(detail);
    this.problem = { type: `urn:lockstep:problem:${kind}`, title, status, detail, ...(errors ? { errors } : {}) };
  }
}

const invalid = (errors) =>
  new Refusal(422, 'invalid', 'The request has fields that cannot be accepted', 'Correct the fields named in errors.', errors);
const notFound = (what) => new Refusal(404, 'not-found', `There is no such ${what}`, `This pair has no such ${what}. List them to see what there is.`);

/** Complains of fields that are not in `known` and of required ones that are missing. */
function checkFields(body, known, required) {
  const errors = [
    ...Object.keys(body).filter((k) => !known.includes(k)).map((k) => ({ pointer: `/${k}`, detail: 'There is no such field.' })),
    ...required.filter((k) => body[k] === undefined).map((k) => ({ pointer: `/${k}`, detail: 'This field is required.' })),
  ];
  if (errors.length > 0) throw invalid(errors);
}

export class Model {
  constructor({ demo = false } = {}) {
    this.listeners = new Set();
    this.nextEvent = 1;
    this.events = [];
    this.jobs = [];
    this.volumes = [];
    this.initiators = [];
    this.tokens = [];
    this.revision = 1;
    this.pair = {
      state: 'complete', id: randomUUID(), name: 'pair1', target_name: 'iqn.2026-11.io.lockstep:pair1', local_side: 'a', revision: 1,
      arbiter: { kind: 'witness', endpoints: ['http://10.0.0.10:2379'], user: null, client_certificate: false, preferred_side: null },
      settings: { lease_ms: 1500, resync_floor_bytes_per_second: 8388608, resync_ceiling_bytes_per_second: 0 }, discovery_chap_user: null, link_protection: 'required', created_at: now(),
    };
    this.started = Date.now() - 9_340_000;
    this.nodes = ['a', 'b'].map((side) => ({
      id: randomUUID(), side, name: `node-${side}`, local: side === 'a',
      addresses: { portals: [PORTALS[side]], link: `10.0.1.1${side === 'a' ? 1 : 2}:3261`, management: `10.0.0.1${side === 'a' ? 1 : 2}:8443` },
      reachable: true, lockstepd: { state: 'running', uptime_seconds: 0, message: '' }, version: '0.1.0',
      partner_link: { connected: true, path: 'tcp', why_not_rdma: 'RDMA is off in lockstepd.toml.', cipher: 'TLS_AES_256_GCM_SHA384', since: now() }, witness: { kind: 'witness', reachable: true }, revision: 1,
    }));
    this.addToken('first', 'admin');
    this.log('pair.joined', 'info', 'b', null, 'node-b joined the pair.');
    if (demo) this.fillForDemo();
    this.timer = setInterval(() => this.tick(), 250);
    this.timer.unref();
  }

  stop() {
    clearInterval(this.timer);
  }

  tell(name, item, id) {
    for (const listener of this.listeners) listener(name, item, id);
  }

  log(kind, severity, side, volume_id, message, count = 1) {
    const event = { id: this.nextEvent++, time: now(), kind, severity, side, volume_id, message, count };
    this.events.push(event);
    this.tell('event', event, event.id);
  }

  nodeList() {
    for (const node of this.nodes) {
      node.lockstepd.uptime_seconds = node.reachable ? Math.floor((Date.now() - this.started) / 1000) : null;
      node.revision = this.revision;
    }
    return this.nodes;
  }

  addToken(name, role, expires_in_seconds) {
    const expires_at = expires_in_seconds ? new Date(Date.now() + expires_in_seconds * 1000).toISOString() : null;
    const token = { id: randomUUID(), name, role, created_at: now(), last_used_at: null, expires_at };
    this.tokens.push(token);
    return token;
  }

  replica(side, allocated) {
    return {
      side, node: `node-${side}`, state: 'in_sync', serving: true, access: 'active_optimized', failover_limited: false, dirty_bytes: 0,
      allocated_bytes: allocated, reason: '', lost: false, store: null, epoch: { number: 1, id: randomUUID(), members: 'both', sequencer: 'a' },
      resync: { running: false, bytes_total: 0, bytes_done: 0, bytes_per_second: 0, seconds_left: null },
      io: { reads: 0, writes: 0, read_bytes: 0, write_bytes: 0 },
    };
  }

  addVolume({ name, size_bytes, block_format = '512e', thin = true, read_only = false, removable = false, encrypted = false, write_cache = false, any_initiator = false, access = [] }, allocated = 0) {
    const used = new Set(this.volumes.map((v) => v.lun));
    let lun = 0;
    while (used.has(lun)) lun++;
    const id = randomUUID();
    const volume = {
      id, name, size_bytes, block_format, block_size_bytes: block_format === '4kn' ? 4096 : 512, physical_block_size_bytes: block_format === '512n' ? 512 : 4096,
      thin, read_only, removable, encrypted, write_cache, importing: false, any_initiator, access, serial: id.replaceAll('-', ''), lun,
      target_name: this.pair.target_name, portals: ['a', 'b'].map((side) => ({ side, address: PORTALS[side] })), lifecycle: 'ready',
      health: 'ok', summary: 'In sync on both nodes.', replicas: [this.replica('a', thin ? allocated : size_bytes), this.replica('b', thin ? allocated : size_bytes)],
      created_at: now(),
    };
    this.volumes.push(volume);
    return volume;
  }

  volume(id) {
    const volume = this.volumes.find((v) => v.id === id);
    if (!volume) throw notFound('volume');
    return volume;
  }

  /** A job that takes `ms` and then does `finish`, whose returned sentence becomes its message. */
  addJob(kind, volume_id, message, ms, finish) {
    const job = { id: randomUUID(), kind, state: 'running', progress: 0, message, error: null, volume_id, created_at: now(), finished_at: null };
    Object.defineProperty(job, 'play', { value: { begun: Date.now(), ms, finish } });
    this.jobs.unshift(job);
    this.tell('job', job);
    return job;
  }

  createVolume(body) {
    checkFields(body, ['name', 'size_bytes', 'block_format', 'thin', 'read_only', 'removable', 'encrypted', 'write_cache', 'any_initiator', 'access'], ['name', 'size_bytes']);
    const errors = [];
    const { name, size_bytes: size, access = [] } = body;
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(name)) errors.push({ pointer: '/name', detail: 'Letters, digits, dot, underscore and hyphen, at most 63.' });
    if (!Number.isInteger(size) || size < 2 ** 20 || size > 2 ** 46) errors.push({ pointer: '/size_bytes', detail: 'From 1 MiB to 64 TiB.' });
    else if (size % 4096 !== 0) errors.push({ pointer: '/size_bytes', detail: 'Must be a multiple of 4096.' });
    if (![undefined, '512e', '512n', '4kn'].includes(body.block_format)) errors.push({ pointer: '/block_format', detail: 'Must be one of 512e, 512n, 4kn.' });
    this.checkAccess(access, errors);
    if (errors.length > 0) throw invalid(errors);
    if (this.volumes.some((v) => v.name === name)) {
      const detail = `There is a volume named ${name} already.`;
      throw new Refusal(409, 'conflict', 'The name is taken', `${detail} Choose another name.`, [{ pointer: '/name', detail }]);
    }
    const volume = this.addVolume(body);
    volume.lifecycle = 'creating';
    this.tell('volume', volume);
    return this.addJob('volume.create', volume.id, `Making the replicas of ${name}.`, 600, () => {
      volume.lifecycle = 'ready';
      this.tell('volume', volume);
      this.log('volume.created', 'info', null, volume.id, `${name} was made.`);
      return `${name} was made on both nodes.`;
    });
  }

  checkAccess(access, errors) {
    access.forEach((iqn, i) => {
      if (!this.initiators.some((x) => x.iqn === iqn)) errors.push({ pointer: `/access/${i}`, detail: `${iqn} is not a known initiator. Add it first.` });
    });
  }

  changeVolume(id, body) {
    const volume = this.volume(id);
    checkFields(body, ['any_initiator', 'access', 'read_only', 'write_cache'], []);
    const errors = [];
    this.checkAccess(body.access ?? [], errors);
    if (errors.length > 0) throw invalid(errors);
    if (body.access) volume.any_initiator = false;
    if (body.any_initiator) volume.access = [];
    Object.assign(volume, body);
    this.tell('volume', volume);
    this.log('volume.changed', 'info', null, id, `${volume.name} was changed.`);
    return volume;
  }

  growVolume(id, body) {
    const volume = this.volume(id);
    checkFields(body, ['any_initiator', 'access', 'read_only', 'write_cache', 'size_bytes'], ['size_bytes']);
    const wrong = (detail) => invalid([{ pointer: '/size_bytes', detail }]);
    const { size_bytes: size } = body;
    if (Object.keys(body).length > 1) throw wrong('Takes a job of its own: change it by itself.');
    if (!Number.isInteger(size) || size > 2 ** 46) throw wrong('From 1 MiB to 64 TiB.');
    if (size % 4096 !== 0) throw wrong('Must be a multiple of 4096.');
    if (size <= volume.size_bytes) throw wrong(size === volume.size_bytes ? `Is ${size} already.` : `Is ${volume.size_bytes} now and can only grow.`);
    if (volume.replicas.some((r) => r.state !== 'in_sync')) {
      throw new Refusal(409, 'conflict', 'The volume cannot grow now', `Both nodes must be in sync before ${volume.name} grows.`);
    }
    return this.addJob('volume.grow', id, `Makes room for ${volume.name} to grow.`, 400, () => {
      volume.size_bytes = size;
      this.tell('volume', volume);
      this.log('volume.grown', 'info', null, id, `${volume.name} has ${size} bytes now.`);
      return `${volume.name} has ${size} bytes now.`;
    });
  }

  deleteVolume(id, confirm) {
    const volume = this.volume(id);
    if (confirm !== volume.name) {
      throw new Refusal(409, 'confirmation-needed', 'The confirmation is not the volume’s name', `Confirm with its name, ${volume.name}.`, [{ pointer: '?confirm', detail: 'Must be the volume’s name.' }]);
    }
    volume.lifecycle = 'deleting';
    this.tell('volume', volume);
    return this.addJob('volume.delete', id, `Deleting ${volume.name}.`, 500, () => {
      this.volumes = this.volumes.filter((v) => v !== volume);
      this.tell('volume', { ...volume, lifecycle: 'deleted' });
      this.log('volume.deleted', 'info', null, id, `${volume.name} was deleted.`);
      return `${volume.name} was deleted.`;
    });
  }

  act(id, body) {
    const volume = this.volume(id);
    checkFields(body, ['action', 'side', 'accept_inconsistent', 'confirm'], ['action', 'side']);
    if (!['leave', 'force_solo', 'give_up'].includes(body.action)) throw invalid([{ pointer: '/action', detail: 'One of leave, force_solo, give_up.' }]);
    if (body.action !== 'leave' && body.confirm !== volume.name) {
      throw new Refusal(409, 'confirmation-needed', 'The confirmation is not the volume’s name', `Confirm with its name, ${volume.name}.`, [{ pointer: '/confirm', detail: 'Must be the volume’s name.' }]);
    }
    const replica = volume.replicas.find((r) => r.side === body.side);
    const partner = volume.replicas.find((r) => r.side !== body.side);
    if (body.action === 'leave' && replica.state !== 'in_sync') {
      throw new Refusal(409, 'conflict', 'The replica cannot leave now', `${replica.node} is not in sync, so the other node could not go on alone.`);
    }
    return this.addJob(`volume.${body.action}`, id, `Asking ${replica.node}.`, 400, () => {
      if (body.action === 'leave') {
        Object.assign(replica, { state: 'left', reason: 'Left by agreement, for maintenance.' });
        partner.state = 'solo';
        volume.health = 'degraded';
        volume.summary = `Served by ${partner.node} alone; ${replica.node} left for maintenance.`;
      } else if (body.action === 'force_solo') {
        Object.assign(replica, { state: 'solo', serving: true, reason: '' });
      } else {
        this.startResync(volume.id, { target: body.side });
      }
      this.tell('volume', volume);
      this.log('volume.state', 'warning', body.side, id, `${replica.node}: ${body.action.replace('_', ' ')} of ${volume.name} is done.`);
      return 'Done.';
    });
  }

  createInitiator(body) {
    checkFields(body, ['iqn', 'chap', 'mutual_chap'], ['iqn']);
    const errors = [];
    if (!IQN.test(body.iqn)) errors.push({ pointer: '/iqn', detail: 'Not an iSCSI name, such as iqn.1993-08.org.debian:01:host1.' });
    for (const key of ['chap', 'mutual_chap']) {
      if (body[key] && (body[key].secret ?? '').length < 12) errors.push({ pointer: `/${key}/secret`, detail: 'At least 12 characters.' });
    }
    if (body.mutual_chap && !body.chap) errors.push({ pointer: '/mutual_chap', detail: 'Needs chap, too.' });
    if (errors.length > 0) throw invalid(errors);
    if (this.initiators.some((i) => i.iqn === body.iqn)) throw new Refusal(409, 'conflict', 'The initiator is known already', `${body.iqn} is known already. Remove it first to change its credentials.`);
    const initiator = {
      iqn: body.iqn, chap: body.mutual_chap ? 'mutual' : body.chap ? 'one_way' : 'none', chap_user: body.chap?.user ?? null,
      mutual_user: body.mutual_chap?.user ?? null, created_at: now(),
    };
    this.initiators.push(initiator);
    this.log('initiator.created', 'info', null, null, `${body.iqn} was added.`);
    return this.initiator(body.iqn);
  }

  initiator(iqn) {
    const found = this.initiators.find((i) => i.iqn === iqn);
    if (!found) throw notFound('initiator');
    return { ...found, volumes: this.volumes.filter((v) => v.access.includes(iqn)).map((v) => v.id) };
  }

  deleteInitiator(iqn) {
    const { volumes } = this.initiator(iqn);
    if (volumes.length > 0) {
      const names = volumes.map((id) => this.volume(id).name).join(', ');
      throw new Refusal(409, 'conflict', 'The initiator is in use', `The access list of ${names} names it. Take it off there first.`);
    }
    this.initiators = this.initiators.filter((i) => i.iqn !== iqn);
    this.log('initiator.deleted', 'info', null, null, `${iqn} was removed.`);
  }

  createToken(body) {
    checkFields(body, ['name', 'role', 'expires_in_seconds'], ['name']);
    if (this.tokens.some((t) => t.name === body.name)) throw new Refusal(409, 'conflict', 'The name is taken', `There is a token named ${body.name} already.`, [{ pointer: '/name', detail: 'Is taken.' }]);
    const secret = `lst_${randomBytes(18).toString('base64url')}`;
    return { ...this.addToken(body.name, body.role ?? 'admin', body.expires_in_seconds), token: secret };
  }

  deleteToken(id) {
    if (!this.tokens.some((t) => t.id === id)) throw notFound('token');
    this.tokens = this.tokens.filter((t) => t.id !== id);
  }

  /** Plays a resync of `total` bytes at `rate` bytes a second towards `target`. */
  startResync(id, { target = 'b', total = 4 * GIB, rate = 180 * 2 ** 20, done = 0 } = {}) {
    const volume = this.volume(id);
    for (const r of volume.replicas) {
      const is_target = r.side === target;
      r.state = is_target ? 'syncing_target' : 'syncing_source';
      r.dirty_bytes = total - done;
      r.epoch = { number: r.epoch.number + (is_target ? 0 : 1), id: randomUUID(), members: is_target ? 'both' : r.side, sequencer: r.side };
      r.resync = { running: true, bytes_total: total, bytes_done: done, bytes_per_second: rate, seconds_left: Math.round((total - done) / rate) };
    }
    volume.health = 'degraded';
    this.describeResync(volume);
    this.tell('volume', volume);
    this.log('resync.started', 'info', target, id, `Resync of ${volume.name} to node-${target} began.`);
  }

  describeResync(volume) {
    const source = volume.replicas.find((r) => r.state === 'syncing_source');
    const target = volume.replicas.find((r) => r.state === 'syncing_target');
    const { bytes_done, bytes_total, seconds_left } = source.resync;
    volume.summary = `Served by ${source.node}; ${target.node} is being brought up to date (${Math.floor((100 * bytes_done) / bytes_total)} %, about ${seconds_left} seconds left).`;
  }

  tick() {
    for (const job of this.jobs.filter((j) => j.state === 'running')) {
      const { begun, ms, finish } = job.play;
      job.progress = Math.min(1, (Date.now() - begun) / ms);
      if (job.progress >= 1) Object.assign(job, { message: finish(), state: 'done', finished_at: now() });
      this.tell('job', job);
    }
    for (const volume of this.volumes) {
      const running = volume.replicas.filter((r) => r.resync.running);
      if (running.length === 0) continue;
      for (const r of running) this.advance(r);
      if (running[0].resync.running) this.describeResync(volume);
      else this.finishResync(volume);
      this.tell('volume', volume);
    }
  }

  advance(replica) {
    const s = replica.resync;
    s.bytes_done = Math.min(s.bytes_total, s.bytes_done + s.bytes_per_second / 4);
    s.seconds_left = Math.round((s.bytes_total - s.bytes_done) / s.bytes_per_second);
    s.running = s.bytes_done < s.bytes_total;
    replica.dirty_bytes = s.bytes_total - s.bytes_done;
  }

  finishResync(volume) {
    const number = Math.max(...volume.replicas.map((r) => r.epoch.number)) + 1;
    const id = randomUUID();
    for (const r of volume.replicas) {
      Object.assign(r, { state: 'in_sync', dirty_bytes: 0, reason: '', epoch: { number, id, members: 'both', sequencer: 'a' } });
      r.resync = { running: false, bytes_total: 0, bytes_done: 0, bytes_per_second: 0, seconds_left: null };
    }
    Object.assign(volume, { health: 'ok', summary: 'In sync on both nodes.' });
    this.log('resync.finished', 'info', null, volume.id, `${volume.name} is in sync on both nodes.`);
  }

  /** Takes the partner away: its management and its lockstepd. */
  losePartner() {
    const [a, b] = this.nodes;
    b.reachable = false;
    b.lockstepd.state = 'unknown';
    b.witness.reachable = null;
    a.partner_link = { connected: false, path: null, why_not_rdma: null, cipher: null, since: now() };
    b.partner_link = { ...a.partner_link };
    for (const volume of this.volumes) {
      const [here, there] = volume.replicas;
      Object.assign(here, { state: 'solo', dirty_bytes: 48 * 2 ** 20 });
      Object.assign(there, { state: 'unknown', serving: false, access: 'unavailable', reason: 'node-b cannot be asked.' });
      for (const r of volume.replicas) r.resync = { ...r.resync, running: false, seconds_left: null };
      Object.assign(volume, { health: 'degraded', summary: 'Served by node-a alone; node-b is not reachable.' });
      this.tell('volume', volume);
    }
    for (const node of this.nodes) this.tell('node', node);
    this.log('partner.lost', 'warning', 'a', null, 'The link to node-b was lost; node-a goes on alone.');
  }

  /** Two paths, of which the second is down. */
  link() {
    const end = (side, number) => ({
      side, node: `node-${side}`, address: `10.0.${number}.1${side === 'a' ? 1 : 2}:3261`, transport: 'tcp', from: `10.0.${number}.1${side === 'a' ? 1 : 2}`,
      to: `10.0.${number}.1${side === 'a' ? 2 : 1}:3261`, bytes_out: 0, bytes_in: 0, losses: 0, rdma: null, segments_out: 0, segments_sent_again: 0, path_mtu: 1500,
      ...(number === 1
        ? { state: 'proven', cipher: 'TLS_AES_256_GCM_SHA384', problem: '', round_trip_us: 84 }
        : { state: 'down', cipher: null, problem: 'Cannot connect: Connection refused.', round_trip_us: null }),
    });
    const carriers = this.nodes.map((n) => ({
      side: n.side, node: n.name, transport: n.partner_link.path, why_not_rdma: n.partner_link.why_not_rdma,
      cipher: n.partner_link.cipher, switches: null, last_switch: null,
    }));
    return {
      paths: [1, 2].map((number) => ({ number, last_resort: number === 2, nodes: ['a', 'b'].map((side) => end(side, number)) })),
      carriers,
    };
  }

  measurePath({ path, transport }) {
    const found = this.link().paths.find((p) => p.number === path)?.nodes[0];
    if (!found) throw new Refusal(404, 'not-found', 'There is no such path', `Path ${path} is not one of the link's.`);
    if (found.state === 'down') throw new Refusal(409, 'conflict', 'Not now', `Path ${path} is down: ${found.problem}`);
    const sizes = [64, 4096, 65536, 2 ** 20].map((bytes) => ({
      bytes, round_trips: 500, least_us: 80 + bytes / 1250, median_us: 90 + bytes / 1250, p99_us: 1200 + bytes / 1250, bytes_a_second: bytes * 1000,
    }));
    return { path, node: found.node, from: found.from, to: found.to, transport, sizes, findings: ['Packets are smaller than the interface allows: look for an MTU on the way.'] };
  }

  health() {
    const problems = [];
    const add = (subject, side, volume_id, message, advice) => problems.push({ severity: 'warning', subject, side, volume_id, message, advice });
    for (const n of this.nodes) {
      if (!n.reachable) add('node', n.side, null, `${n.name} is not reachable.`, 'Check its power and its network. Volumes are brought up to date by themselves when it returns.');
    }
    for (const v of this.volumes.filter((x) => x.health !== 'ok')) {
      const resync = v.replicas.some((r) => r.resync.running);
      const target = v.replicas.find((r) => r.state === 'syncing_target');
      if (resync) add('volume', target.side, v.id, `${v.name}: ${target.node} is being brought up to date.`, '');
      else add('volume', null, v.id, `${v.name}: ${v.summary}`, '');
    }
    const status = problems.length > 0 ? 'degraded' : 'ok';
    const summary = status === 'ok' ? 'Both nodes are up and every volume is mirrored.' : 'Every volume serves, but the loss of a node could stop some.';
    return { status, summary, problems };
  }

  sessions() {
    return this.initiators.slice(0, 2).flatMap((i, n) =>
      ['a', 'b'].map((side) => ({ side, initiator: i.iqn, address: `10.0.0.${50 + n}:4${n}812`, portal: PORTALS[side], transport: n === 0 ? 'tcp' : 'rdma', since: this.pair.created_at })),
    );
  }

  fillForDemo() {
    for (const host of ['esx1', 'esx2']) {
      this.createInitiator({ iqn: `iqn.1998-01.com.vmware:${host}`, chap: { user: host, secret: 'a long enough secret' } });
    }
    this.createInitiator({ iqn: 'iqn.1993-08.org.debian:01:backup' });
    const esx = this.initiators.slice(0, 2).map((i) => i.iqn);
    const sizes = { 'vmware-ds1': [4096, 1331], 'vmware-ds2': [4096, 412], 'postgres': [512, 187], 'backup': [8192, 2950] };
    for (const [name, [size, used]] of Object.entries(sizes)) {
      const volume = this.addVolume({ name, size_bytes: size * GIB, any_initiator: !name.startsWith('vmware'), access: name.startsWith('vmware') ? esx : [] }, used * GIB);
      volume.replicas.forEach((r, i) => {
        r.io = { reads: 1482031 * (i + 1), writes: 504120 + 77 * i, read_bytes: 91 * GIB, write_bytes: 17 * GIB };
      });
      this.log('volume.created', 'info', null, volume.id, `${name} was made.`);
    }
    this.startResync(this.volumes[1].id, { total: 21 * GIB, rate: 96 * 2 ** 20, done: 9.6 * GIB });
  }
}
