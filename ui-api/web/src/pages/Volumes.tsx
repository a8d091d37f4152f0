import { Button, PageSection, SearchInput } from '@patternfly/react-core';
import { useState } from 'react';
import { CreateVolume } from '../components/CreateVolume';
import { Section } from '../components/Section';
import { Empty } from '../components/States';
import { VolumeTable } from '../components/VolumeTable';
import { useView } from '../state/context';

export function VolumesPage() {
  const { pair, volumes } = useView();
  const [filter, setFilter] = useState('');
  const [creating, setCreating] = useState(false);
  const wanted = filter.trim().toLowerCase();
  const shown = volumes.filter((v) => v.name.toLowerCase().includes(wanted));
  const paired = pair !== null && pair.state !== 'none';
  const create = <Button onClick={() => setCreating(true)} isDisabled={!paired}>Create volume</Button>;
  const search = (
    <SearchInput aria-label="Find a volume by its name" placeholder="Name" value={filter} onChange={(_, v) => setFilter(v)} onClear={() => setFilter('')} />
  );
  return (
    <PageSection isFilled className="ls-page">
      <Section
        title="Volumes"
        level="h1"
        actions={volumes.length > 0 && <>{volumes.length > 5 && search}{create}</>}
      >
        {volumes.length === 0 ? (
          <Empty title="No volumes yet" action={create}>
            {paired ? 'A volume is a disk that lives on both nodes.' : 'Make a pair first, with the command lockstep pair create.'}
          </Empty>
        ) : shown.length === 0 ? (
          <Empty title="No volume has such a name">Try a shorter part of it.</Empty>
        ) : (
          <VolumeTable volumes={shown} />
        )}
      </Section>
      {creating && <CreateVolume onClose={() => setCreating(false)} />}
    </PageSection>
  );
}
