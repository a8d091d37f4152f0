// What a measurement of one of the link's paths has found.
import { Content } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import type { LinkMeasurement } from '../api/types';
import { bytes, count, rate } from '../format';

const micros = (us: number) => (us < 1000 ? `${us.toFixed(0)} µs` : `${(us / 1000).toFixed(2)} ms`);

export function MeasuredPath({ found }: { found: LinkMeasurement }) {
  return (
    <div className="ls-measured" data-testid={`link-measurement-${found.transport}`}>
      <Content component="p">
        Path {found.path}, the way out of {found.node}: from {found.from} to {found.to}, {found.transport}.
      </Content>
      <Table variant="compact" aria-label={`Measured: path ${found.path} by ${found.transport}`}>
        <Thead>
          <Tr><Th>Size</Th><Th>Round trips</Th><Th>Least</Th><Th>Median</Th><Th>99 of 100 within</Th><Th>Bandwidth</Th></Tr>
        </Thead>
        <Tbody>
          {found.sizes.map((size) => (
            <Tr key={size.bytes}>
              <Td dataLabel="Size" className="ls-figure">{bytes(size.bytes)}</Td>
              <Td dataLabel="Round trips" className="ls-figure">{count(size.round_trips)}</Td>
              <Td dataLabel="Least" className="ls-figure">{micros(size.least_us)}</Td>
              <Td dataLabel="Median" className="ls-figure">{micros(size.median_us)}</Td>
              <Td dataLabel="99 of 100 within" className="ls-figure">{micros(size.p99_us)}</Td>
              <Td dataLabel="Bandwidth" className="ls-figure">{rate(size.bytes_a_second)}</Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
      {found.findings.length === 0 && <Content component="p">Nothing stands out.</Content>}
      {found.findings.map((finding) => <Content key={finding} component="p">{finding}</Content>)}
    </div>
  );
}
