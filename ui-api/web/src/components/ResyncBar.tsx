// How far a volume's resync has come; nothing when none is running.
import { Progress, ProgressMeasureLocation } from '@patternfly/react-core';
import type { Resync, Volume } from '../api/types';
import { bytes, duration, percent, rate } from '../format';

/** The resync of a volume as whichever node knows most of it tells. */
export function resyncOf(volume: Volume): Resync | null {
  const running = volume.replicas.filter((r) => r.resync.running).map((r) => r.resync);
  if (running.length === 0) return null;
  return running.reduce((best, r) => (r.bytes_total > best.bytes_total ? r : best));
}

export function ResyncBar({ volume, detailed = false }: { volume: Volume; detailed?: boolean }) {
  const resync = resyncOf(volume);
  if (!resync) return null;
  const done = resync.bytes_total > 0 ? percent(resync.bytes_done / resync.bytes_total) : 0;
  const left = resync.seconds_left === null ? '' : `${duration(resync.seconds_left)} left`;
  const words = [
    detailed ? `${bytes(resync.bytes_done)} of ${bytes(resync.bytes_total)}` : '',
    resync.bytes_per_second > 0 ? rate(resync.bytes_per_second) : '',
    left,
  ].filter(Boolean);
  return (
    <div className="ls-resync" data-testid={`resync-${volume.name}`}>
      <Progress
        value={done}
        size="sm"
        measureLocation={ProgressMeasureLocation.outside}
        label={`${done.toFixed(1)} %`}
        aria-label={`Resync of ${volume.name}`}
      />
      <div className="ls-quiet ls-small">{words.join(' · ')}</div>
    </div>
  );
}
