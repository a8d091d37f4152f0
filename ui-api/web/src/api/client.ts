// Requests to the API. A refusal becomes ApiError with the server's own words; no answer at all becomes Unreachable.
import type { Initiator, InitiatorCreate, Job, LinkMeasurement, Problem, Volume, VolumeAction, VolumeChange, VolumeCreate } from './types';

export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
  /** What the server says of one field, such as `/name`; undefined when it has nothing against it. */
  field(pointer: string): string | undefined {
    return this.problem.errors?.find((e) => e.pointer === pointer || e.pointer.startsWith(pointer + '/'))?.detail;
  }
}

export class Unreachable extends Error {}

const REQUEST_TIMEOUT_MS = 10_000;
const MEASUREMENT_TIMEOUT_MS = 30_000; // takes two seconds, and longer over a slow path

async function problemOf(response: Response): Promise<Problem> {
  try {
    const body = (await response.json()) as Problem;
    if (typeof body.title === 'string') return body;
  } catch {
    // Not a problem document: a proxy in between, perhaps. The status has to do.
  }
  return {
    type: 'about:blank',
    title: 'The server refused the request',
    status: response.status,
    detail: `It answered with status ${response.status} and gave no reason.`,
  };
}

export class Api {
  constructor(private readonly token: string) {}

  async request<T>(method: string, path: string, body?: unknown, timeoutMs = REQUEST_TIMEOUT_MS): Promise<T> {
    let response: Response;
    try {
      response = await fetch(`/api/v1${path}`, {
        method,
        headers: {
          Authorization: `Bearer ${this.token}`,
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
        cache: 'no-store',
        signal: AbortSignal.timeout(timeoutMs),
      });
    } catch {
      throw new Unreachable('This node does not answer.');
    }
    if (!response.ok) throw new ApiError(await problemOf(response));
    return (response.status === 204 ? undefined : await response.json()) as T;
  }

  get<T>(path: string, timeoutMs?: number) {
    return this.request<T>('GET', path, undefined, timeoutMs);
  }

  async list<T>(path: string) {
    return (await this.get<{ items: T[] }>(path)).items;
  }

  /** The open event stream; the caller reads and aborts it. */
  async stream(lastEventId: number | null, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const response = await fetch('/api/v1/events/stream', {
      headers: {
        Authorization: `Bearer ${this.token}`,
        Accept: 'text/event-stream',
        ...(lastEventId === null ? {} : { 'Last-Event-ID': String(lastEventId) }),
      },
      cache: 'no-store',
      signal,
    });
    if (!response.ok || !response.body) throw new ApiError(await problemOf(response));
    return response.body;
  }

  createVolume = (volume: VolumeCreate) => this.request<Job>('POST', '/volumes', volume);
  deleteVolume = (volume: Volume) =>
    this.request<Job>('DELETE', `/volumes/${volume.id}?confirm=${encodeURIComponent(volume.name)}`);
  changeVolume = (volume: Volume, change: VolumeChange) => this.request<Volume>('PATCH', `/volumes/${volume.id}`, change);
  growVolume = (volume: Volume, size_bytes: number) => this.request<Job>('PATCH', `/volumes/${volume.id}`, { size_bytes });
  act = (volume: Volume, action: VolumeAction) => this.request<Job>('POST', `/volumes/${volume.id}/actions`, action);
  measurePath = (path: number, transport: 'tcp' | 'rdma') =>
    this.request<LinkMeasurement>('POST', '/pair/link/measurement', { path, transport }, MEASUREMENT_TIMEOUT_MS);
  createInitiator = (initiator: InitiatorCreate) => this.request<Initiator>('POST', '/initiators', initiator);
  deleteInitiator = (iqn: string) => this.request<void>('DELETE', `/initiators/${encodeURIComponent(iqn)}`);
}
