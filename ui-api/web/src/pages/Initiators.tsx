// The hosts that are known, how they prove who they are, and whether they are connected now.
import { Button, PageSection, Radio } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import TrashIcon from '@patternfly/react-icons/dist/esm/icons/trash-icon';
import { useCallback, useEffect, useState } from 'react';
import type { Initiator, Session } from '../api/types';
import { Dialog } from '../components/Dialog';
import { Field } from '../components/Field';
import { Section } from '../components/Section';
import { Dot } from '../components/StateLabel';
import { Empty, Failure, Loading } from '../components/States';
import { useStore, useView } from '../state/context';
import { href } from '../state/route';
import { time } from '../format';

const REFRESH_MS = 5_000;
const IQN = /^(iqn\.\d{4}-(0[1-9]|1[0-2])\.[a-z0-9.-]+(:[a-z0-9.:-]+)?|eui\.[0-9a-f]{16}|naa\.([0-9a-f]{16}|[0-9a-f]{32}))$/;
const CHAP = { none: 'No password', one_way: 'CHAP', mutual: 'CHAP both ways' };
type Chap = keyof typeof CHAP;

function secretFault(secret: string): string | undefined {
  return secret !== '' && secret.length < 12 ? 'At least 12 characters.' : undefined;
}

function AddInitiator({ onClose, onAdded }: { onClose: () => void; onAdded: () => Promise<void> }) {
  const store = useStore();
  const [iqn, setIqn] = useState('');
  const [chap, setChap] = useState<Chap>('none');
  const [user, setUser] = useState('');
  const [secret, setSecret] = useState('');
  const [mutualUser, setMutualUser] = useState('');
  const [mutualSecret, setMutualSecret] = useState('');
  const name = iqn.trim().toLowerCase();
  const badName = name !== '' && !IQN.test(name) ? 'A name such as iqn.1993-08.org.debian:01:host1.' : undefined;
  const same = chap === 'mutual' && secret !== '' && secret === mutualSecret ? 'The two secrets must differ.' : undefined;
  const oneWay = chap === 'none' || (user !== '' && secret.length >= 12);
  const bothWays = chap !== 'mutual' || (mutualUser !== '' && mutualSecret.length >= 12 && !same);
  const add = async () => {
    await store.api.createInitiator({
      iqn: name,
      ...(chap === 'none' ? {} : { chap: { user, secret } }),
      ...(chap === 'mutual' ? { mutual_chap: { user: mutualUser, secret: mutualSecret } } : {}),
    });
    await onAdded();
  };
  return (
    <Dialog
      title="Add an initiator"
      confirm="Add"
      disabled={name === '' || !!badName || !oneWay || !bothWays}
      onClose={onClose}
      onConfirm={add}
    >
      {(error) => (
        <>
          <Field id="iqn" label="Name" value={iqn} onChange={setIqn} required autoFocus placeholder="iqn.…" error={badName ?? error?.field('/iqn')} help="On Linux it is in /etc/iscsi/initiatorname.iscsi." />
          <div role="radiogroup" aria-label="How it proves who it is" className="ls-radios">
            {(Object.keys(CHAP) as Chap[]).map((kind) => (
              <Radio key={kind} id={`chap-${kind}`} name="chap" label={CHAP[kind]} isChecked={chap === kind} onChange={() => setChap(kind)} />
            ))}
          </div>
          {chap !== 'none' && (
            <>
              <Field id="chap-user" label="User" value={user} onChange={setUser} required error={error?.field('/chap/user')} />
              <Field id="chap-secret" label="Secret" type="password" value={secret} onChange={setSecret} required error={secretFault(secret) ?? error?.field('/chap/secret')} help="It cannot be shown again." />
            </>
          )}
          {chap === 'mutual' && (
            <>
              <Field id="mutual-user" label="Target’s user" value={mutualUser} onChange={setMutualUser} required error={error?.field('/mutual_chap/user')} />
              <Field id="mutual-secret" label="Target’s secret" type="password" value={mutualSecret} onChange={setMutualSecret} required error={secretFault(mutualSecret) ?? same ?? error?.field('/mutual_chap/secret')} />
            </>
          )}
        </>
      )}
    </Dialog>
  );
}

function RemoveInitiator({ initiator, onClose, onRemoved }: { initiator: Initiator; onClose: () => void; onRemoved: () => Promise<void> }) {
  const store = useStore();
  const remove = async () => {
    await store.api.deleteInitiator(initiator.iqn);
    await onRemoved();
  };
  return (
    <Dialog title="Remove this initiator?" confirm="Remove" danger onClose={onClose} onConfirm={remove}>
      {() => <p><span className="ls-code">{initiator.iqn}</span> is forgotten, its secrets too.</p>}
    </Dialog>
  );
}

function Row({ initiator, sessions, onRemove }: { initiator: Initiator; sessions: Session[]; onRemove: () => void }) {
  const { volumes } = useView();
  const own = sessions.filter((s) => s.initiator === initiator.iqn);
  const sides = new Set(own.map((s) => s.side));
  const overRdma = own.some((s) => s.transport === 'rdma');
  return (
    <Tr>
      <Td dataLabel="Name" modifier="breakWord"><span className="ls-code">{initiator.iqn}</span></Td>
      <Td dataLabel="Password">
        {CHAP[initiator.chap]}
        {initiator.old_secret_valid_until && <div className="ls-quiet">The old one too until {time(initiator.old_secret_valid_until)}</div>}
      </Td>
      <Td dataLabel="Connected">
        {sides.size === 0 ? <span className="ls-quiet">No</span> : <span className="ls-state"><Dot tone={sides.size > 1 ? 'success' : 'warning'} />{sides.size > 1 ? 'To both nodes' : 'To one node'}{overRdma && ', over RDMA'}</span>}
      </Td>
      <Td dataLabel="Volumes">
        {initiator.volumes.length === 0 ? (
          <span className="ls-quiet">Those open to any</span>
        ) : (
          initiator.volumes.map((id, i) => (
            <span key={id}>{i > 0 && ', '}<a href={href('volumes', id)}>{volumes.find((v) => v.id === id)?.name ?? id}</a></span>
          ))
        )}
      </Td>
      <Td isActionCell>
        <Button variant="plain" icon={<TrashIcon />} onClick={onRemove} aria-label={`Remove ${initiator.iqn}`} title="Remove" className="ls-delete" />
      </Td>
    </Tr>
  );
}

export function InitiatorsPage() {
  const store = useStore();
  const [list, setList] = useState<Initiator[] | null>(null);
  const [sessions, setSessions] = useState<Session[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const [adding, setAdding] = useState(false);
  const [doomed, setDoomed] = useState<Initiator | null>(null);
  const load = useCallback(async () => {
    try {
      const [known, open] = await Promise.all([store.api.list<Initiator>('/initiators'), store.api.list<Session>('/sessions')]);
      setList(known);
      setSessions(open);
      setError(null);
    } catch (e) {
      setError(e as Error);
    }
  }, [store]);
  useEffect(() => {
    void load();
    const timer = setInterval(() => void load(), REFRESH_MS);
    return () => clearInterval(timer);
  }, [load]);

  if (!list && !error) return <Loading />;
  const add = <Button onClick={() => setAdding(true)}>Add initiator</Button>;
  return (
    <PageSection isFilled className="ls-page">
      <Failure error={error} />
      {list && (
        <Section title="Initiators" level="h1" actions={list.length > 0 && add}>
          {list.length === 0 ? (
            <Empty title="No initiators yet" action={add}>
              An initiator is a host that uses volumes. A new volume is closed: make its hosts known here, best with a password each, and let
              them in.
            </Empty>
          ) : (
            <Table aria-label="Initiators" variant="compact">
              <Thead>
                <Tr><Th>Name</Th><Th>Password</Th><Th>Connected</Th><Th>Volumes</Th><Th screenReaderText="Actions" /></Tr>
              </Thead>
              <Tbody>{list.map((i) => <Row key={i.iqn} initiator={i} sessions={sessions} onRemove={() => setDoomed(i)} />)}</Tbody>
            </Table>
          )}
        </Section>
      )}
      {adding && <AddInitiator onClose={() => setAdding(false)} onAdded={load} />}
      {doomed && <RemoveInitiator initiator={doomed} onClose={() => setDoomed(null)} onRemoved={load} />}
    </PageSection>
  );
}
