// The pair at a glance: health, both nodes, the volumes, the latest events.
import { Button, PageSection } from '@patternfly/react-core';
import { useState } from 'react';
import { CreateVolume } from '../components/CreateVolume';
import { EventList } from '../components/EventList';
import { HealthBanner, UnknownHealth } from '../components/HealthBanner';
import { LinkPaths } from '../components/LinkPaths';
import { PairPicture } from '../components/PairPicture';
import { Section } from '../components/Section';
import { Empty } from '../components/States';
import { VolumeTable } from '../components/VolumeTable';
import { useView } from '../state/context';
import { href } from '../state/route';

const AT_A_GLANCE = 8;

function NoPair() {
  const { health } = useView();
  // A node that was in one says what it has left, and what to do.
  const lost = health?.problems.find((p) => p.subject === 'pair' && p.severity === 'critical');
  if (lost) return <Empty title={lost.message}>{lost.advice}</Empty>;
  return (
    <Empty title="This node is not in a pair yet">
      Make one here with <code>lockstep pair create</code>, or join one with <code>lockstep pair join</code> and an invitation from
      the other node. This page follows by itself.
    </Empty>
  );
}

export function OverviewPage() {
  const { connection, error, pair, health, nodes, volumes, events } = useView();
  const [creating, setCreating] = useState(false);
  if (!pair || pair.state === 'none') return <PageSection isFilled><NoPair /></PageSection>;
  // With many volumes, those that are not well come first and the rest is a page of its own.
  const troubled = volumes.filter((v) => v.health !== 'ok' || v.lifecycle !== 'ready');
  const many = volumes.length > AT_A_GLANCE;
  const shown = many ? (troubled.length > 0 ? troubled : volumes).slice(0, AT_A_GLANCE) : volumes;
  const create = <Button size="sm" onClick={() => setCreating(true)}>Create volume</Button>;
  return (
    <PageSection isFilled className="ls-page">
      <h1 className="pf-v6-screen-reader">Overview</h1>
      {health && (connection === 'down' || error ? <UnknownHealth last={health} why={error} /> : <HealthBanner health={health} />)}
      <PairPicture pair={pair} nodes={nodes} />
      <LinkPaths />
      <Section
        title={many && troubled.length > 0 ? 'Volumes that need a look' : 'Volumes'}
        actions={
          <>
            {many && <a href={href('volumes')}>All {volumes.length}</a>}
            {volumes.length > 0 && create}
          </>
        }
      >
        {volumes.length === 0 ? (
          <Empty title="No volumes yet" action={create}>A volume is a disk that lives on both nodes.</Empty>
        ) : (
          <VolumeTable volumes={shown} />
        )}
      </Section>
      {events.length > 0 && (
        <Section title="Latest events" actions={<a href={href('events')}>All events</a>}>
          <EventList events={events.slice(-5)} />
        </Section>
      )}
      {creating && <CreateVolume onClose={() => setCreating(false)} />}
    </PageSection>
  );
}
