import { FormSelect, FormSelectOption, PageSection } from '@patternfly/react-core';
import { useState } from 'react';
import { EventList } from '../components/EventList';
import { Section } from '../components/Section';
import { Empty } from '../components/States';
import { useView } from '../state/context';

export function EventsPage() {
  const { events } = useView();
  const [least, setLeast] = useState<'all' | 'warning' | 'critical'>('all');
  const shown = events.filter((e) => least === 'all' || e.severity === 'critical' || e.severity === least);
  const choice = (
    <FormSelect value={least} onChange={(_, v) => setLeast(v as typeof least)} aria-label="Which events">
      <FormSelectOption value="all" label="All" />
      <FormSelectOption value="warning" label="Warnings and worse" />
      <FormSelectOption value="critical" label="Critical" />
    </FormSelect>
  );
  return (
    <PageSection isFilled className="ls-page">
      <Section title="Events" level="h1" actions={choice}>
        {shown.length === 0 ? (
          <Empty title="No events">{least === 'all' ? 'Nothing has happened yet.' : 'Nothing of this kind has happened lately.'}</Empty>
        ) : (
          <EventList events={shown} />
        )}
      </Section>
    </PageSection>
  );
}
