// What happened, newest first.
import { useView } from '../state/context';
import type { Event } from '../api/types';
import { count, time } from '../format';
import { href } from '../state/route';
import { SeverityLabel } from './StateLabel';

export function EventList({ events }: { events: Event[] }) {
  const { nodes, volumes } = useView();
  const newestFirst = [...events].reverse();
  return (
    <ol className="ls-events">
      {newestFirst.map((e) => {
        const volume = volumes.find((v) => v.id === e.volume_id);
        const node = nodes.find((n) => n.side === e.side);
        return (
          <li key={e.id}>
            <time dateTime={e.time} className="ls-quiet ls-figure">{time(e.time)}</time>
            <span className="ls-event-words">
              {e.severity !== 'info' && <><SeverityLabel severity={e.severity} /> </>}
              {e.message}
              <span className="ls-quiet ls-small">
                {e.count > 1 && <> · {count(e.count)} times</>}
                {node && <> · {node.name}</>}
                {volume && <> · <a href={href('volumes', volume.id)}>{volume.name}</a></>}
              </span>
            </span>
          </li>
        );
      })}
    </ol>
  );
}
