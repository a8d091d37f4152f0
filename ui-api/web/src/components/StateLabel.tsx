// Colours and words for how things stand: the same everywhere.
import { Label, Tooltip } from '@patternfly/react-core';
import SyncIcon from '@patternfly/react-icons/dist/esm/icons/sync-alt-icon';
import type { HealthStatus, Job, Replica, ReplicaState, Severity, Volume } from '../api/types';

export type Tone = 'success' | 'warning' | 'danger' | 'info' | undefined;

const REPLICA: Record<ReplicaState, { text: string; tone: Tone; means: string }> = {
  starting: { text: 'Starting', tone: 'info', means: 'Reads its metadata and asks its partner or the arbiter.' },
  in_sync: { text: 'In sync', tone: 'success', means: 'Up to date and serving.' },
  solo: { text: 'Serving alone', tone: 'warning', means: 'The only up-to-date copy.' },
  syncing_source: { text: 'Sending', tone: 'info', means: 'The only up-to-date copy; brings its partner up to date.' },
  syncing_target: { text: 'Catching up', tone: 'info', means: 'Is being brought up to date; the partner answers for it.' },
  suspended: { text: 'Suspended', tone: 'danger', means: 'The partner is lost and nobody has decided yet; I/O waits.' },
  waiting: { text: 'Waiting', tone: 'danger', means: 'May not start alone: needs its partner, the witness or you.' },
  split_brain: { text: 'Split brain', tone: 'danger', means: 'Both copies went on alone. Choose the one to give up.' },
  failed: { text: 'Failed', tone: 'danger', means: 'This node’s disk or metadata failed; the partner answers for it, if it serves.' },
  left: { text: 'Out for maintenance', tone: 'warning', means: 'Left by agreement; the partner goes on alone.' },
  unknown: { text: 'Unknown', tone: undefined, means: 'The node cannot be asked.' },
};

/** A small mark before words that say the same. */
export function Dot({ tone }: { tone: Tone }) {
  return <span className={`ls-dot ls-tone-${tone ?? 'none'}`} aria-hidden="true" />;
}

export function ReplicaLabel({ replica }: { replica: Replica }) {
  const shown = REPLICA[replica.state] ?? { text: replica.state, tone: undefined, means: '' };
  const limited = replica.state === 'in_sync' && replica.failover_limited;
  return (
    <Tooltip content={replica.reason || shown.means}>
      <span tabIndex={0} className="ls-state">
        <Dot tone={limited ? 'warning' : shown.tone} />
        {limited ? 'In sync, failover limited' : shown.text}
      </span>
    </Tooltip>
  );
}

const HEALTH: Record<HealthStatus, { text: string; tone: Tone }> = {
  ok: { text: 'OK', tone: 'success' },
  degraded: { text: 'Degraded', tone: 'warning' },
  critical: { text: 'Critical', tone: 'danger' },
};
export const healthTone = (status: HealthStatus) => HEALTH[status].tone;

/** One word for the volume as a whole. */
export function VolumeLabel({ volume }: { volume: Volume }) {
  if (volume.lifecycle === 'creating') return <Label color="blue" isCompact>Being made</Label>;
  if (volume.lifecycle === 'deleting') return <Label isCompact>Being deleted</Label>;
  if (volume.replicas.some((r) => r.state === 'split_brain')) return <Label status="danger" isCompact>Split brain</Label>;
  const resync = volume.replicas.some((r) => r.resync.running);
  if (resync && volume.health !== 'critical') return <Label color="blue" isCompact icon={<SyncIcon />}>Resync</Label>;
  if (volume.health === 'ok') {
    return <Label status="success" variant="outline" isCompact>{volume.replicas.length > 1 ? 'In sync' : 'Serving'}</Label>;
  }
  const { text, tone } = HEALTH[volume.health];
  return <Label status={tone} isCompact>{text}</Label>;
}

export function JobLabel({ job }: { job: Job }) {
  const tone: Record<Job['state'], Tone> = { pending: undefined, running: 'info', done: 'success', failed: 'danger' };
  const text: Record<Job['state'], string> = { pending: 'Waiting', running: 'Running', done: 'Done', failed: 'Failed' };
  return <span className="ls-state"><Dot tone={tone[job.state]} />{text[job.state]}</span>;
}

export function SeverityLabel({ severity }: { severity: Severity }) {
  const tone: Record<Severity, Tone> = { info: undefined, warning: 'warning', critical: 'danger' };
  const text: Record<Severity, string> = { info: 'Info', warning: 'Warning', critical: 'Critical' };
  return <Label status={tone[severity]} isCompact variant="outline">{text[severity]}</Label>;
}
