// One volume: both replicas side by side, and what a host needs to reach it.
import {
  Alert, Breadcrumb, BreadcrumbItem, Button, Card, CardBody, PageSection, Title,
} from '@patternfly/react-core';
import { useState } from 'react';
import type { Replica, Volume, VolumeActionName } from '../api/types';
import { CopyField } from '../components/CopyField';
import { EventList } from '../components/EventList';
import { ResyncBar } from '../components/ResyncBar';
import { Section } from '../components/Section';
import { ReplicaLabel, VolumeLabel } from '../components/StateLabel';
import { NotThere } from '../components/States';
import { ACTIONS, ActOnReplica, ChangeAccess, ChangeUse, DeleteVolume, GrowVolume } from '../components/VolumeDialogs';
import { bytes, count, time } from '../format';
import { useView } from '../state/context';
import { go, href } from '../state/route';

/** What can sensibly be asked of a replica in this state. */
function actionsFor(replica: Replica, volume: Volume): VolumeActionName[] {
  const partner = volume.replicas.find((r) => r.side !== replica.side);
  if (!partner) return [];
  if (replica.state === 'in_sync') return ['leave'];
  if (replica.state === 'split_brain') return ['give_up', 'force_solo'];
  // While the partner serves there is nothing to force, only a brain to split.
  const stuck = ['waiting', 'suspended', 'syncing_target'].includes(replica.state);
  return stuck && !partner.serving ? ['force_solo'] : [];
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

function ReplicaCard({ volume, replica, onAction }: { volume: Volume; replica: Replica; onAction: (a: VolumeActionName) => void }) {
  const actions = actionsFor(replica, volume);
  return (
    <Card component="section" isCompact className="ls-replica" aria-label={`Replica on ${replica.node}`}>
      <CardBody>
        <div className="ls-node-head">
          <span className="ls-side" aria-hidden="true">{replica.side.toUpperCase()}</span>
          <h3 className="ls-node-name">{replica.node}</h3>
          <span className="ls-push"><ReplicaLabel replica={replica} /></span>
        </div>
        {replica.reason && <Alert isInline isPlain variant="warning" title={replica.reason} className="ls-reason" />}
        <dl className="ls-facts">
          <Fact name="Answers hosts">{replica.serving ? 'Yes' : 'No'}</Fact>
          <Fact name="Space taken">{bytes(replica.allocated_bytes)}</Fact>
          <Fact name="Partner may lack">{bytes(replica.dirty_bytes)}</Fact>
          <Fact name="Reads">{count(replica.io.reads)} · {bytes(replica.io.read_bytes)}</Fact>
          <Fact name="Writes">{count(replica.io.writes)} · {bytes(replica.io.write_bytes)}</Fact>
          {replica.epoch && (
            <Fact name="Epoch">
              <span title={replica.epoch.id}>{replica.epoch.number}</span>
              <span className="ls-quiet"> · {replica.epoch.members === 'both' ? 'both nodes' : `only ${replica.epoch.members.toUpperCase()}`}</span>
            </Fact>
          )}
        </dl>
        {actions.length > 0 && (
          <div className="ls-row ls-card-actions">
            {actions.map((a) => (
              <Button key={a} variant="secondary" size="sm" isDanger={ACTIONS[a].danger} onClick={() => onAction(a)}>
                {ACTIONS[a].menu}
              </Button>
            ))}
          </div>
        )}
      </CardBody>
    </Card>
  );
}

function Connection({ volume }: { volume: Volume }) {
  const { nodes } = useView();
  const nodeOf = (side: string) => nodes.find((n) => n.side === side)?.name ?? side.toUpperCase();
  return (
    <div className="ls-connect">
      <div>
        <div className="ls-label">Target</div>
        <CopyField label="target name" text={volume.target_name} />
      </div>
      {volume.portals.map((p) => (
        <div key={p.side + p.address}>
          <div className="ls-label">Portal on {nodeOf(p.side)}</div>
          <CopyField label={`portal on ${nodeOf(p.side)}`} text={p.address} />
        </div>
      ))}
      <div>
        <div className="ls-label">Serial</div>
        <CopyField label="serial" text={volume.serial} />
      </div>
      <p className="ls-quiet ls-small">
        LUN {volume.lun}. Log in to the portals of both nodes and let multipath join the paths; the volume is then there whichever
        node is lost.
      </p>
    </div>
  );
}

type Open = { kind: 'delete' | 'grow' | 'access' | 'use' } | { kind: 'action'; replica: Replica; action: VolumeActionName } | null;

export function VolumeDetailPage({ id }: { id: string }) {
  const { volumes, events } = useView();
  const [open, setOpen] = useState<Open>(null);
  const volume = volumes.find((v) => v.id === id);
  if (!volume) return <NotThere what="volume" />;
  const close = () => setOpen(null);
  const own = events.filter((e) => e.volume_id === id).slice(-20);
  const facts = [
    bytes(volume.size_bytes), volume.thin ? 'thin' : 'fully allocated', `${volume.block_format} blocks`,
    ...(volume.encrypted ? ['encrypted on each node\'s disk'] : []),
    volume.read_only ? 'read-only' : 'read and write', `write cache ${volume.write_cache ? 'on' : 'off'}`,
    ...(volume.removable ? ['shown as removable'] : []), ...(volume.importing ? ['being imported'] : []),
    `made ${time(volume.created_at)}`,
  ];
  return (
    <PageSection isFilled className="ls-page">
      <div>
        <Breadcrumb>
          <BreadcrumbItem to={href('volumes')}>Volumes</BreadcrumbItem>
          <BreadcrumbItem isActive>{volume.name}</BreadcrumbItem>
        </Breadcrumb>
        <div className="ls-section-head ls-volume-head">
          <Title headingLevel="h1" size="2xl">{volume.name}</Title>
          <VolumeLabel volume={volume} />
          <Button variant="secondary" className="ls-push" onClick={() => setOpen({ kind: 'grow' })} isDisabled={volume.lifecycle !== 'ready'}>
            Grow
          </Button>
          <Button variant="secondary" onClick={() => setOpen({ kind: 'use' })} isDisabled={volume.lifecycle === 'deleting'}>
            Change use
          </Button>
          <Button variant="secondary" isDanger onClick={() => setOpen({ kind: 'delete' })} isDisabled={volume.lifecycle === 'deleting'}>
            Delete
          </Button>
        </div>
        <div className="ls-quiet">{facts.join(' · ')}</div>
        <p className="ls-volume-summary">{volume.summary}</p>
        <ResyncBar volume={volume} detailed />
      </div>
      <Section title="Replicas" plain>
        <div className="ls-replicas">
          {volume.replicas.map((r) => (
            <ReplicaCard key={r.side} volume={volume} replica={r} onAction={(action) => setOpen({ kind: 'action', replica: r, action })} />
          ))}
        </div>
      </Section>
      <div className="ls-columns">
        <Section title="Connect a host"><Connection volume={volume} /></Section>
        <Section title="Access" actions={<Button variant="link" isInline onClick={() => setOpen({ kind: 'access' })}>Change</Button>}>
          <div className="ls-pad">
            {volume.access.length === 0 ? (
              <p>{volume.any_initiator ? 'Any initiator may use this volume.' : 'Nobody may use this volume yet: change who may.'}</p>
            ) : (
              <ul className="ls-list">{volume.access.map((iqn) => <li key={iqn} className="ls-code">{iqn}</li>)}</ul>
            )}
          </div>
        </Section>
      </div>
      {own.length > 0 && <Section title="Events"><EventList events={own} /></Section>}
      {open?.kind === 'delete' && <DeleteVolume volume={volume} onClose={close} onDeleted={() => go('volumes')} />}
      {open?.kind === 'grow' && <GrowVolume volume={volume} onClose={close} />}
      {open?.kind === 'use' && <ChangeUse volume={volume} onClose={close} />}
      {open?.kind === 'access' && <ChangeAccess volume={volume} onClose={close} />}
      {open?.kind === 'action' && <ActOnReplica volume={volume} replica={open.replica} action={open.action} onClose={close} />}
    </PageSection>
  );
}
