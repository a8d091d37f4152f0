// The schemas of ui-api/openapi/lockstep.yaml that the page uses, by the same names.
export type Side = 'a' | 'b';
export type Severity = 'info' | 'warning' | 'critical';
export type HealthStatus = 'ok' | 'degraded' | 'critical';

export interface Arbiter {
  kind: 'witness' | 'preferred' | 'fence';
  user: string | null;
  client_certificate: boolean;
  endpoints: string[];
  preferred_side: Side | null;
}

export interface Pair {
  state: 'none' | 'alone' | 'complete';
  id: string | null;
  name: string | null;
  target_name: string | null;
  local_side: Side | null;
  revision: number;
  arbiter: Arbiter | null;
  created_at: string | null;
}

export interface Node {
  id: string;
  side: Side;
  name: string;
  local: boolean;
  addresses: { portals: string[]; link: string | null; management: string | null };
  reachable: boolean;
  lockstepd: { state: 'running' | 'stopped' | 'unknown'; uptime_seconds: number | null; message: string };
  version: string | null;
  partner_link: { connected: boolean; path: 'tcp' | 'rdma' | null; since: string | null };
  witness: { kind: 'witness' | 'preferred' | 'fence' | 'none'; reachable: boolean | null };
  revision: number | null;
}

export interface Session {
  side: Side;
  initiator: string;
  address: string;
  portal: string;
  since: string;
}

export type ReplicaState =
  | 'starting'
  | 'in_sync'
  | 'solo'
  | 'syncing_source'
  | 'syncing_target'
  | 'suspended'
  | 'waiting'
  | 'split_brain'
  | 'failed'
  | 'left'
  | 'unknown';

export interface Resync {
  running: boolean;
  bytes_total: number;
  bytes_done: number;
  bytes_per_second: number;
  seconds_left: number | null;
}

export interface Replica {
  side: Side;
  node: string;
  state: ReplicaState;
  serving: boolean;
  access: 'active_optimized' | 'unavailable' | 'transitioning';
  failover_limited: boolean;
  dirty_bytes: number;
  allocated_bytes: number;
  reason: string;
  lost: boolean;
  store: string | null;
  epoch: { number: number; id: string; members: Side | 'both'; sequencer: Side } | null;
  resync: Resync;
  io: { reads: number; writes: number; read_bytes: number; write_bytes: number };
}

export interface Volume {
  id: string;
  name: string;
  size_bytes: number;
  block_format: BlockFormat;
  block_size_bytes: number;
  physical_block_size_bytes: number;
  thin: boolean;
  read_only: boolean;
  removable: boolean;
  encrypted: boolean;
  write_cache: boolean;
  importing: boolean;
  any_initiator: boolean;
  access: string[];
  serial: string;
  lun: number;
  target_name: string;
  portals: { side: Side; address: string }[];
  lifecycle: 'creating' | 'ready' | 'deleting' | 'deleted';
  health: HealthStatus;
  summary: string;
  replicas: Replica[];
  created_at: string;
}

export type BlockFormat = '512e' | '512n' | '4kn';

export interface VolumeCreate {
  name: string;
  size_bytes: number;
  block_format: BlockFormat;
  thin: boolean;
  read_only: boolean;
  removable: boolean;
  encrypted: boolean;
  write_cache: boolean;
  any_initiator: boolean;
  access: string[];
}

export interface VolumeChange {
  any_initiator?: boolean;
  access?: string[];
  read_only?: boolean;
  write_cache?: boolean;
}

export type VolumeActionName = 'leave' | 'force_solo' | 'give_up';

export interface VolumeAction {
  action: VolumeActionName;
  side: Side;
  accept_inconsistent?: boolean;
  despite_partner?: boolean;
  confirm?: string;
}

export interface Initiator {
  iqn: string;
  chap: 'none' | 'one_way' | 'mutual';
  chap_user: string | null;
  mutual_user: string | null;
  old_secret_valid_until: string | null;
  volumes: string[];
  created_at: string;
}

export interface ChapCredentials {
  user: string;
  secret: string;
}

export interface InitiatorCreate {
  iqn: string;
  chap?: ChapCredentials;
  mutual_chap?: ChapCredentials;
}

export interface Job {
  id: string;
  kind: string;
  state: 'pending' | 'running' | 'done' | 'failed';
  progress: number;
  message: string;
  error: Problem | null;
  volume_id: string | null;
  created_at: string;
  finished_at: string | null;
}

export interface Event {
  id: number;
  time: string;
  kind: string;
  severity: Severity;
  side: Side | null;
  volume_id: string | null;
  message: string;
  /** How often it happened. */
  count: number;
}

export interface HealthProblem {
  severity: 'warning' | 'critical';
  subject: 'pair' | 'node' | 'link' | 'witness' | 'volume';
  side: Side | null;
  volume_id: string | null;
  message: string;
  advice: string;
}

export interface Health {
  status: HealthStatus;
  summary: string;
  problems: HealthProblem[];
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  errors?: { pointer: string; detail: string }[];
}
