// Volumes in a table that turns into cards on a narrow screen.
import { Button } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import TrashIcon from '@patternfly/react-icons/dist/esm/icons/trash-icon';
import { useState } from 'react';
import type { Volume } from '../api/types';
import { bytes } from '../format';
import { useView } from '../state/context';
import { href } from '../state/route';
import { ResyncBar, resyncOf } from './ResyncBar';
import { ReplicaLabel, VolumeLabel } from './StateLabel';
import { DeleteVolume } from './VolumeDialogs';

function accessWords({ any_initiator: any, access }: Volume) {
  if (any || access.length === 0) return <span className="ls-quiet">{any ? 'Any' : 'Nobody yet'}</span>;
  return access.length === 1 ? '1 initiator' : `${access.length} initiators`;
}

function Row({ volume, onDelete }: { volume: Volume; onDelete: () => void }) {
  const { nodes } = useView();
  const resync = resyncOf(volume);
  const allocated = Math.max(0, ...volume.replicas.map((r) => r.allocated_bytes));
  return (
    <Tr>
      <Td dataLabel="Name" modifier="breakWord">
        <a href={href('volumes', volume.id)} className="ls-name">{volume.name}</a>
      </Td>
      <Td dataLabel="Size">
        <span className="ls-figure">{bytes(volume.size_bytes)}</span>
        {volume.thin && <div className="ls-quiet ls-small">{bytes(allocated)} used</div>}
      </Td>
      <Td dataLabel="State" width={30}>
        <VolumeLabel volume={volume} />
        {resync ? <ResyncBar volume={volume} /> : volume.health !== 'ok' && <div className="ls-quiet ls-small">{volume.summary}</div>}
      </Td>
      {nodes.map((node) => {
        const replica = volume.replicas.find((r) => r.side === node.side);
        return <Td key={node.side} dataLabel={node.name}>{replica ? <ReplicaLabel replica={replica} /> : <span className="ls-quiet">–</span>}</Td>;
      })}
      <Td dataLabel="Access" className="ls-wide">
        {accessWords(volume)}
      </Td>
      <Td isActionCell>
        <Button
          variant="plain"
          icon={<TrashIcon />}
          onClick={onDelete}
          isDisabled={volume.lifecycle === 'deleting'}
          aria-label={`Delete ${volume.name}`}
          title="Delete"
          className="ls-delete"
        />
      </Td>
    </Tr>
  );
}

export function VolumeTable({ volumes }: { volumes: Volume[] }) {
  const { nodes } = useView();
  const [doomed, setDoomed] = useState<Volume | null>(null);
  return (
    <>
      <Table aria-label="Volumes" variant="compact" className="ls-volumes">
        <Thead>
          <Tr>
            <Th>Name</Th>
            <Th>Size</Th>
            <Th>State</Th>
            {nodes.map((n) => <Th key={n.side}>{n.name}</Th>)}
            <Th className="ls-wide">Access</Th>
            <Th screenReaderText="Actions" />
          </Tr>
        </Thead>
        <Tbody>
          {volumes.map((v) => <Row key={v.id} volume={v} onDelete={() => setDoomed(v)} />)}
        </Tbody>
      </Table>
      {doomed && <DeleteVolume volume={doomed} onClose={() => setDoomed(null)} />}
    </>
  );
}
