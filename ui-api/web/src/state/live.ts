// Everything the page shows, kept current: by the event stream while it lasts, by asking every two seconds when not.
import { Api, ApiError, Unreachable } from '../api/client';
import { readEvents, type ServerEvent } from '../api/sse';
import type { Event, Health, Job, Node, Pair, Volume } from '../api/types';

export type Connection = 'connecting' | 'live' | 'polling' | 'down';

export interface View {
  connection: Connection;
  loaded: boolean; // false until the first full answer
  error: string; // why nothing can be shown, when the server answers but refuses
  asOf: number; // when anything last arrived, Date.now()
  pair: Pair | null;
  health: Health | null;
  nodes: Node[];
  volumes: Volume[];
  jobs: Job[];
  events: Event[]; // oldest first
}

const POLL_MS = 2_000;
const HEALTH_MS = 3_000; // how old the health may be while the stream tells the rest
const STILL_MS = 3_000; // a node that takes longer to tell its health stands still: nothing shown is of now
const SILENCE_MS = 40_000; // the server sends something every 15 s; after this the stream counts as dead
const STREAM_RETRY_MS = 5_000;
const MAX_EVENTS = 500;
const MAX_JOBS = 100;

const byName = (a: Volume, b: Volume) => a.name.localeCompare(b.name, 'en', { numeric: true });

/** `list` with `item` in the place of the one with the same id, or at the front. */
function put<T extends { id: string }>(list: T[], item: T): T[] {
  return list.some((x) => x.id === item.id) ? list.map((x) => (x.id === item.id ? item : x)) : [item, ...list];
}

export class LiveStore {
  private view: View = {
    connection: 'connecting',
    loaded: false,
    error: '',
    asOf: 0,
    pair: null,
    health: null,
    nodes: [],
    volumes: [],
    jobs: [],
    events: [],
  };
  private readonly listeners = new Set<() => void>();
  private readonly stop = new AbortController();
  private healthDue: ReturnType<typeof setTimeout> | undefined;
  private endStream = () => {};

  constructor(
    readonly api: Api,
    private readonly onRefused: (why: string) => void,
  ) {}

  getView = () => this.view;
  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  start() {
    void this.run();
  }
  close() {
    this.stop.abort();
    clearTimeout(this.healthDue);
  }
  /** After a change made here: do not wait for the next round. */
  refresh = () => this.load().catch(() => undefined);

  /** A job's or volume's state as a request just returned it. */
  learn = (job: Job) => this.set({ jobs: put(this.view.jobs, job).slice(0, MAX_JOBS) });

  private set(change: Partial<View>) {
    if (this.stop.signal.aborted) return;
    this.view = { ...this.view, ...change };
    for (const listener of this.listeners) listener();
  }

  private async run() {
    let nextStream = 0;
    while (!this.stop.signal.aborted) {
      try {
        await this.load();
        if (Date.now() >= nextStream) {
          await this.follow();
          nextStream = Date.now() + STREAM_RETRY_MS;
          continue; // the stream ended: ask at once whether the server is still there
        }
      } catch (e) {
        if (this.stop.signal.aborted) return;
        if (e instanceof ApiError && e.problem.status === 401) return this.onRefused(e.problem.detail);
        if (e instanceof ApiError) this.set({ connection: 'polling', error: e.message });
        else this.set({ connection: 'down' });
      }
      await new Promise((wake) => setTimeout(wake, POLL_MS));
    }
  }

  private async load() {
    const { api } = this;
    const [pair, health, nodes, volumes, jobs, events] = await Promise.all([
      api.get<Pair>('/pair'),
      api.get<Health>('/health'),
      api.list<Node>('/nodes'),
      api.list<Volume>('/volumes'),
      api.list<Job>(`/jobs?limit=${MAX_JOBS}`),
      api.list<Event>('/events?limit=200'),
    ]);
    volumes.sort(byName);
    const connection = this.view.connection === 'live' ? 'live' : 'polling';
    this.set({ pair, health, nodes, volumes, jobs, events, connection, loaded: true, error: '', asOf: Date.now() });
  }

  /** Follows the event stream until it ends, for whatever reason. */
  private async follow() {
    const abort = new AbortController();
    const end = () => abort.abort();
    this.endStream = end;
    this.stop.signal.addEventListener('abort', end);
    let silence = setTimeout(end, SILENCE_MS);
    try {
      const last = this.view.events.at(-1)?.id ?? null;
      const stream = await this.api.stream(last, abort.signal);
      this.set({ connection: 'live' });
      this.scheduleHealth(HEALTH_MS);
      await readEvents(
        stream,
        (e) => this.apply(e),
        () => {
          clearTimeout(silence);
          silence = setTimeout(end, SILENCE_MS);
        },
      );
    } catch {
      // Ended or refused: polling goes on and says what is wrong, if anything is.
    } finally {
      clearTimeout(silence);
      clearTimeout(this.healthDue);
      this.stop.signal.removeEventListener('abort', end);
      if (this.view.connection === 'live') this.set({ connection: 'polling' });
    }
  }

  private apply({ name, data }: ServerEvent) {
    let item: unknown;
    try {
      item = JSON.parse(data);
    } catch {
      return; // one bad message is not worth the page
    }
    const { events, jobs, nodes, volumes } = this.view;
    const asOf = Date.now();
    if (name === 'volume') {
      const volume = item as Volume;
      const rest = volumes.filter((v) => v.id !== volume.id);
      this.set({ volumes: volume.lifecycle === 'deleted' ? rest : [...rest, volume].sort(byName), asOf });
    } else if (name === 'job') {
      this.set({ jobs: put(jobs, item as Job).slice(0, MAX_JOBS), asOf });
    } else if (name === 'node') {
      const next = put(nodes, item as Node).sort((a, b) => a.side.localeCompare(b.side));
      this.set({ nodes: next, asOf });
      this.scheduleHealth(200);
    } else if (name === 'event') {
      const event = item as Event;
      if (!events.some((e) => e.id === event.id)) this.set({ events: [...events, event].slice(-MAX_EVENTS), asOf });
      this.scheduleHealth(200);
    }
  }

  private scheduleHealth(delay: number) {
    clearTimeout(this.healthDue);
    this.healthDue = setTimeout(() => void this.askHealth(), delay);
  }

  private async askHealth() {
    try {
      const [health, pair] = await Promise.all([
        this.api.get<Health>('/health', STILL_MS),
        this.api.get<Pair>('/pair', STILL_MS),
      ]);
      this.set({ health, pair, asOf: Date.now() });
    } catch (e) {
      // An open stream that says nothing looks as one of a node to which nothing happens.
      if (e instanceof Unreachable) this.set({ connection: 'down' });
      this.endStream();
    }
    if (this.view.connection === 'live') this.scheduleHealth(HEALTH_MS);
  }
}
