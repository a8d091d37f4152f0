import { PageSection, Progress, ProgressMeasureLocation } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import type { Job } from '../api/types';
import { Section } from '../components/Section';
import { JobLabel } from '../components/StateLabel';
import { Empty } from '../components/States';
import { percent, time } from '../format';
import { useView } from '../state/context';

const KINDS: Record<string, string> = {
  'pair.join': 'Join the pair',
  'volume.create': 'Create volume',
  'volume.import': 'Import volume',
  'volume.grow': 'Grow volume',
  'volume.delete': 'Delete volume',
  'replica.replace': 'Replace copy',
  'pair.link_secrets': 'New link secrets',
  'pair.link_tls': 'Protect the link',
  'node.addresses': 'Change addresses',
  'pair.witness': 'Change witness',
  'pair.arbiter': 'Change arbiter',
  'pair.lease': 'Change lease',
  'pair.leave': 'Take node out',
  'pair.dissolve': 'Dissolve pair',
  'pair.release': 'Forget pair',
  'volume.leave': 'Leave for maintenance',
  'volume.force_solo': 'Force to serve alone',
  'volume.give_up': 'Give up a copy',
};

function JobRow({ job }: { job: Job }) {
  return (
    <Tr>
      <Td dataLabel="Began" className="ls-figure">{time(job.created_at)}</Td>
      <Td dataLabel="What">{KINDS[job.kind] ?? job.kind}</Td>
      <Td dataLabel="State"><JobLabel job={job} /></Td>
      <Td dataLabel="How it goes" width={50}>
        {job.state === 'running' ? (
          <Progress value={percent(job.progress)} size="sm" measureLocation={ProgressMeasureLocation.outside} aria-label={job.message} helperText={job.message} />
        ) : (
          (job.error?.detail ?? job.message)
        )}
      </Td>
    </Tr>
  );
}

export function JobsPage() {
  const { jobs } = useView();
  return (
    <PageSection isFilled className="ls-page">
      <Section title="Jobs" level="h1">
        {jobs.length === 0 ? (
          <Empty title="No jobs">What takes longer than a moment, such as making a volume, is listed here.</Empty>
        ) : (
          <Table aria-label="Jobs" variant="compact">
            <Thead>
              <Tr><Th>Began</Th><Th>What</Th><Th>State</Th><Th>How it goes</Th></Tr>
            </Thead>
            <Tbody>{jobs.map((j) => <JobRow key={j.id} job={j} />)}</Tbody>
          </Table>
        )}
      </Section>
    </PageSection>
  );
}
