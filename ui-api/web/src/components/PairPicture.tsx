// The pair at a glance: two nodes, what ties them together, and who decides when they cannot talk.
import { Card, CardBody, Label } from '@patternfly/react-core';
import type { Node, Pair } from '../api/types';
import { duration } from '../format';
import { useView } from '../state/context';
import { Dot, type Tone } from './StateLabel';

function nodeState(node: Node): { text: string; tone: Tone } {
  if (!node.reachable) return { text: 'Not reachable', tone: 'danger' };
  if (node.lockstepd.state === 'running') return { text: 'Running', tone: 'success' };
  return { text: node.lockstepd.state === 'stopped' ? 'lockstepd is stopped' : 'Unknown', tone: 'danger' };
}

function NodeCard({ node }: { node: Node }) {
  const { volumes } = useView();
  const { text, tone } = nodeState(node);
  const replicas = volumes.flatMap((v) => v.replicas.filter((r) => r.side === node.side));
  const current = replicas.filter((r) => ['in_sync', 'solo', 'syncing_source'].includes(r.state)).length;
  const up = node.reachable ? node.lockstepd.uptime_seconds : null;
  return (
    <Card className="ls-node" isCompact component="section" aria-label={`Node ${node.name}`} data-testid={`node-${node.side}`}>
      <CardBody>
        <div className="ls-node-head">
          <span className="ls-side" aria-hidden="true">{node.side.toUpperCase()}</span>
          <div>
            <h3 className="ls-node-name">{node.name}</h3>
            <div className="ls-quiet ls-small">{node.local ? 'This node' : 'Partner'}{node.version ? ` · ${node.version}` : ''}</div>
          </div>
          <span className="ls-push ls-state"><Dot tone={tone} />{text}</span>
        </div>
        <dl className="ls-facts">
          <div><dt>Portals</dt><dd className="ls-code">{node.addresses.portals.join(', ') || '–'}</dd></div>
          <div><dt>Up to date</dt><dd>{replicas.length === 0 ? 'No volumes' : `${current} of ${replicas.length} ${replicas.length === 1 ? 'volume' : 'volumes'}`}</dd></div>
          <div><dt>Up for</dt><dd>{up === null ? '–' : duration(up)}</dd></div>
        </dl>
        {node.lockstepd.message && <p className="ls-small ls-node-message">{node.lockstepd.message}</p>}
      </CardBody>
    </Card>
  );
}

function linkState(nodes: Node[]): { text: string; detail: string; tone: Tone } {
  const known = nodes.filter((n) => n.reachable && n.lockstepd.state === 'running');
  if (nodes.length < 2) return { text: 'No partner yet', detail: '', tone: undefined };
  const up = known.find((n) => n.partner_link.connected);
  if (!up || known.some((n) => !n.partner_link.connected)) return { text: 'Link lost', detail: '', tone: 'danger' };
  const carrier = up.partner_link.path === 'rdma' ? 'RDMA' : 'TCP';
  const encrypted = known.every((n) => n.partner_link.cipher !== null);
  return { text: 'Linked', detail: `${carrier}, ${encrypted ? 'encrypted' : 'not encrypted'}`, tone: 'success' };
}

// Of what decides: not known, well on both nodes, on one, on none.
const WITNESS = ['Witness unknown', 'Witness reachable', 'Witness seen by one node', 'Witness lost'] as const;
const FENCE = [
  'Fence unknown', 'Fence ready: who powers the other off goes on', 'Fence of one node does not work', 'Fence does not work',
] as const;

function witnessState(pair: Pair, nodes: Node[]): { text: string; tone: Tone } {
  const kind = pair.arbiter?.kind;
  if (kind !== 'witness' && kind !== 'fence') {
    const preferred = nodes.find((n) => n.side === pair.arbiter?.preferred_side);
    return { text: preferred ? `No witness: ${preferred.name} goes on` : 'No witness', tone: undefined };
  }
  const running = nodes.filter((n) => n.reachable && n.lockstepd.state === 'running');
  const words = running.map((n) => n.witness.reachable).filter((r) => r !== null);
  const [unknown, all, some, none] = kind === 'fence' ? FENCE : WITNESS;
  if (words.length === 0) return { text: unknown, tone: undefined };
  if (words.every(Boolean)) return { text: all, tone: 'success' };
  return { text: words.some(Boolean) ? some : none, tone: 'warning' };
}

export function PairPicture({ pair, nodes }: { pair: Pair; nodes: Node[] }) {
  const link = linkState(nodes);
  const witness = witnessState(pair, nodes);
  const [a, b] = nodes;
  return (
    <div className="ls-pair">
      {a && <NodeCard node={a} />}
      <div className={`ls-link ls-tone-${link.tone ?? 'none'}`} role="group" aria-label="What ties the nodes together">
        <span className="ls-wire" aria-hidden="true" />
        <div className="ls-link-words">
          <Label status={link.tone} variant="outline" data-testid="link">{link.detail ? `${link.text} · ${link.detail}` : link.text}</Label>
          <span className="ls-state ls-small" data-testid="witness"><Dot tone={witness.tone} />{witness.text}</span>
        </div>
      </div>
      {b ? (
        <NodeCard node={b} />
      ) : (
        <Card className="ls-node ls-node-missing" isCompact>
          <CardBody>
            <h3 className="ls-node-name">No second node yet</h3>
            <p className="ls-quiet">
              Run <code>lockstep pair invite</code> on {a?.name ?? 'this node'}, then <code>lockstep pair join</code> with what it
              prints on the other.
            </p>
          </CardBody>
        </Card>
      )}
    </div>
  );
}
