// The dialogs about one volume: delete it, make it larger, change who may use it and how, act on one replica.
import { Alert, Checkbox, Content } from '@patternfly/react-core';
import { useState, type ReactNode } from 'react';
import type { Job, Replica, Volume, VolumeActionName } from '../api/types';
import { bytes } from '../format';
import { useStore } from '../state/context';
import { AccessChoice, useInitiators, type Access } from './AccessChoice';
import { Dialog } from './Dialog';
import { Field } from './Field';
import { bytesOf, SizeField, sizeFault, unitFor, type Size } from './SizeField';
import { UseChoice } from './UseChoice';

function TypedName({ volume, value, onChange }: { volume: Volume; value: string; onChange: (v: string) => void }) {
  return (
    <Field
      id="confirm-name"
      label={`Type ${volume.name} to confirm`}
      value={value}
      onChange={onChange}
      required
      autoFocus
    />
  );
}

export function DeleteVolume({ volume, onClose, onDeleted }: { volume: Volume; onClose: () => void; onDeleted?: () => void }) {
  const store = useStore();
  const [typed, setTyped] = useState('');
  const remove = async () => {
    store.learn(await store.api.deleteVolume(volume));
    void store.refresh();
    onDeleted?.();
  };
  return (
    <Dialog
      title={`Delete ${volume.name}?`}
      description={`All ${bytes(volume.size_bytes)} of it are erased on both nodes, and hosts that use it lose it at once. This cannot be undone.`}
      confirm="Delete"
      danger
      disabled={typed !== volume.name}
      onClose={onClose}
      onConfirm={remove}
    >
      {() => <TypedName volume={volume} value={typed} onChange={setTyped} />}
    </Dialog>
  );
}

export function GrowVolume({ volume, onClose }: { volume: Volume; onClose: () => void }) {
  const store = useStore();
  const now = volume.size_bytes;
  const [size, setSize] = useState<Size>({ number: '', unit: unitFor(now) });
  const fault = sizeFault(size);
  const badSize = fault ?? (size.number !== '' && bytesOf(size) <= now ? `More than the ${bytes(now)} that it has.` : undefined);
  const grow = async () => {
    store.learn(await store.api.growVolume(volume, bytesOf(size)));
    void store.refresh();
  };
  return (
    <Dialog
      title={`Make ${volume.name} larger`}
      description="Hosts go on using it meanwhile and are told of the new capacity. It never becomes smaller again."
      confirm="Grow"
      disabled={size.number === '' || badSize !== undefined}
      onClose={onClose}
      onConfirm={grow}
    >
      {(error) => (
        <SizeField label="New size" size={size} onChange={setSize} error={badSize ?? error?.field('/size_bytes')} autoFocus>
          {`It has ${bytes(now)} now. At most 64 TiB.`}
        </SizeField>
      )}
    </Dialog>
  );
}

export function ChangeAccess({ volume, onClose }: { volume: Volume; onClose: () => void }) {
  const store = useStore();
  const initiators = useInitiators();
  const [chosen, setChosen] = useState<Access>({ any_initiator: volume.any_initiator, access: volume.access });
  const save = async () => {
    await store.api.changeVolume(volume, chosen);
    void store.refresh();
  };
  return (
    <Dialog title={`Who may use ${volume.name}`} confirm="Save" disabled={!initiators} onClose={onClose} onConfirm={save}>
      {(error) => <AccessChoice initiators={initiators} chosen={chosen} onChange={setChosen} error={error?.field('/access')} />}
    </Dialog>
  );
}

export function ChangeUse({ volume, onClose }: { volume: Volume; onClose: () => void }) {
  const store = useStore();
  const [readOnly, setReadOnly] = useState(volume.read_only);
  const [writeCache, setWriteCache] = useState(volume.write_cache);
  const save = async () => {
    await store.api.changeVolume(volume, { read_only: readOnly, write_cache: writeCache });
    void store.refresh();
  };
  return (
    <Dialog title={`How ${volume.name} is used`} description="Takes effect at once; no session is ended." confirm="Save" onClose={onClose} onConfirm={save}>
      {() => (
        <>
          <UseChoice readOnly={readOnly} onReadOnly={setReadOnly} writeCache={writeCache} onWriteCache={setWriteCache} />
          {writeCache && !volume.write_cache && (
            <Alert variant="warning" isInline title="Linux hosts (Proxmox VE, too) do not flush until they have looked again">
              Until then an fsync promises what a power cut takes back. On each host, for each path:{' '}
              <code>echo 1 &gt; /sys/block/sdX/device/rescan</code>
            </Alert>
          )}
        </>
      )}
    </Dialog>
  );
}

interface Wording {
  menu: string;
  title: (volume: Volume, replica: Replica) => string;
  text: (replica: Replica) => ReactNode;
  button: string;
  danger: boolean;
}

export const ACTIONS: Record<VolumeActionName, Wording> = {
  leave: {
    menu: 'Leave for maintenance',
    title: (v, r) => `Let ${r.node} leave ${v.name}?`,
    text: (r) => `The other node goes on alone, so the loss of it would stop the volume. ${r.node} keeps its data and lacks only what is written from now on; it returns when lockstepd there is restarted.`,
    button: 'Leave',
    danger: false,
  },
  force_solo: {
    menu: 'Force to serve alone',
    title: (v, r) => `Force ${r.node} to serve ${v.name} alone?`,
    text: () => 'Only if you know that the other node is off and stays off. If it serves too, the two copies drift apart and one of them will have to be given up.',
    button: 'Force',
    danger: true,
  },
  give_up: {
    menu: 'Give up this copy',
    title: (v, r) => `Give up ${r.node}’s copy of ${v.name}?`,
    text: (r) => `What was written on ${r.node} since the two copies parted is lost. It is then brought up to date from the other node.`,
    button: 'Give up',
    danger: true,
  },
};

export function ActOnReplica(props: { volume: Volume; replica: Replica; action: VolumeActionName; onClose: () => void }) {
  const { volume, replica, action, onClose } = props;
  const store = useStore();
  const [typed, setTyped] = useState('');
  const [inconsistent, setInconsistent] = useState(false);
  const words = ACTIONS[action];
  const act = async () => {
    const job: Job = await store.api.act(volume, {
      action,
      side: replica.side,
      ...(action === 'force_solo' ? { accept_inconsistent: inconsistent } : {}),
      ...(words.danger ? { confirm: typed } : {}),
    });
    store.learn(job);
    void store.refresh();
  };
  return (
    <Dialog
      title={words.title(volume, replica)}
      confirm={words.button}
      danger={words.danger}
      disabled={words.danger && typed !== volume.name}
      onClose={onClose}
      onConfirm={act}
    >
      {() => (
        <>
          <Content component="p">{words.text(replica)}</Content>
          {action === 'force_solo' && (
            <Checkbox
              id="accept-inconsistent"
              label="Although this copy is incomplete or old (--accept-inconsistent)"
              description={replica.reason || 'In the middle of a resync it is a mixture of old and new; set back, or behind its partner, it lacks what was acknowledged since.'}
              isChecked={inconsistent}
              onChange={(_, on) => setInconsistent(on)}
            />
          )}
          {words.danger && <TypedName volume={volume} value={typed} onChange={setTyped} />}
        </>
      )}
    </Dialog>
  );
}
