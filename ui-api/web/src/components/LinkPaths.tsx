// The link's paths: what each is for, how each node's way out over it is, and how fast this node's is.
import { Alert, Button } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useEffect, useState } from 'react';
import type { LinkCarrier, LinkMeasurement, LinkPath, LinkPathEnd, PairLink } from '../api/types';
import { bytes, count } from '../format';
import { useStore } from '../state/context';
import { MeasuredPath } from './MeasuredPath';
import { Section } from './Section';
import { Dot, type Tone } from './StateLabel';

const EVERY_MS = 5_000;

const TONES: Record<LinkPathEnd['state'], Tone> = {
  proven: 'success', proving: 'warning', joining: 'warning', down: 'danger', unknown: undefined,
};

interface Measuring {
  path: number | null; // of the one that is being measured
  found: LinkMeasurement[];
  problem?: string;
}

function Row({ path, measuring, onMeasure }: { path: LinkPath; measuring: Measuring; onMeasure: () => void }) {
  const roundTrip = path.nodes.find((n) => n.round_trip_us !== null)?.round_trip_us ?? null;
  return (
    <Tr data-testid={`link-path-${path.number}`}>
      <Td dataLabel="Path" modifier="breakWord">
        {path.nodes.map((n) => <div key={n.side} className="ls-code">{n.address}</div>)}
      </Td>
      <Td dataLabel="State" width={30}>
        {path.nodes.map((n) => (
          <div key={n.side}>
            <span className="ls-state"><Dot tone={TONES[n.state]} />{n.node}: {n.state}</span>
            {n.problem && <div className="ls-quiet ls-small">{n.problem}</div>}
            {n.rdma && <div className="ls-quiet ls-small">over RDMA: {rdmaState(n.rdma)}</div>}
          </div>
        ))}
      </Td>
      <Td dataLabel="Round trip" className="ls-figure">{roundTrip === null ? '–' : `${(roundTrip / 1000).toFixed(2)} ms`}</Td>
      <Td dataLabel="Carried" className="ls-figure">{bytes(path.nodes.reduce((sum, n) => sum + n.bytes_out + n.bytes_in, 0))}</Td>
      <Td dataLabel="Losses" className="ls-figure">{count(Math.max(0, ...path.nodes.map((n) => n.losses)))}</Td>
      <Td dataLabel="For">{path.last_resort ? 'Last resort' : 'Data'}</Td>
      <Td dataLabel="Measure">
        <Button
          variant="secondary"
          size="sm"
          isLoading={measuring.path === path.number}
          isDisabled={measuring.path !== null}
          onClick={onMeasure}
          aria-label={`Measure path ${path.number}`}
        >
          Measure
        </Button>
      </Td>
    </Tr>
  );
}

/** What was told of it last, without what may have changed by now. */
function forgotten(path: LinkPath): LinkPath {
  return { ...path, nodes: path.nodes.map((n) => ({ ...n, state: 'unknown', rdma: null, round_trip_us: null })) };
}

function rdmaState({ state, problem, losses }: NonNullable<LinkPathEnd['rdma']>) {
  return `${state}${losses > 0 ? `, lost ${losses} times` : ''}${problem && `. ${problem}`}`;
}

function carries({ node, transport, why_not_rdma, cipher }: LinkCarrier) {
  if (transport === null) return null;
  if (transport === 'tcp') return `${node}: TCP carries the data. ${why_not_rdma ?? ''}`;
  return `${node}: RDMA carries the data${cipher === null ? '.' : `, encrypted with ${cipher}: the processor copies it for that.`}`;
}

export function LinkPaths() {
  const store = useStore();
  const [{ paths, carriers }, setLink] = useState<PairLink>({ paths: [], carriers: [] });
  const [refused, setRefused] = useState('');
  useEffect(() => {
    let wanted = true;
    const ask = () =>
      store.api.get<PairLink>('/pair/link').then(
        (link) => { if (wanted) { setLink(link); setRefused(''); } },
        (e) => { if (wanted) setRefused(e instanceof Error ? e.message : String(e)); },
      );
    void ask();
    const timer = setInterval(ask, EVERY_MS);
    return () => {
      wanted = false;
      clearInterval(timer);
    };
  }, [store]);
  const [measuring, setMeasuring] = useState<Measuring>({ path: null, found: [] });
  const measure = async ({ number, nodes }: LinkPath) => {
    const found: LinkMeasurement[] = [];
    setMeasuring({ path: number, found });
    try {
      const byTcp = await store.api.measurePath(number, 'tcp');
      found.push(byTcp);
      const rdma = nodes.find((n) => n.node === byTcp.node)?.rdma;
      if (rdma && rdma.state !== 'down') found.push(await store.api.measurePath(number, 'rdma'));
      setMeasuring({ path: null, found });
    } catch (e) {
      setMeasuring({ path: null, found, problem: e instanceof Error ? e.message : String(e) });
    }
  };
  if (paths.length === 0) return null;
  return (
    <Section title="Paths of the link">
      {refused && <Alert variant="warning" isInline title="How the paths are now is not known">{refused} They were last as below.</Alert>}
      <Table variant="compact" aria-label="Paths of the link">
        <Thead>
          <Tr><Th>Path</Th><Th>State</Th><Th>Round trip</Th><Th>Carried</Th><Th>Losses</Th><Th>For</Th><Th screenReaderText="Measure" /></Tr>
        </Thead>
        <Tbody>
          {paths.map((path) => (
            <Row key={path.number} path={refused ? forgotten(path) : path} measuring={measuring} onMeasure={() => void measure(path)} />
          ))}
        </Tbody>
      </Table>
      {carriers.map((carrier) => (
        <p key={carrier.side} className="ls-small" data-testid={`link-carrier-${carrier.side}`}>{carries(carrier)}</p>
      ))}
      {measuring.problem && <Alert variant="danger" isInline title="The path could not be measured">{measuring.problem}</Alert>}
      {measuring.found.map((found) => <MeasuredPath key={found.transport} found={found} />)}
    </Section>
  );
}
