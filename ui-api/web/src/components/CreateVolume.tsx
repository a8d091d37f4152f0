// The dialog that makes a volume. It checks what it can before asking; the server has the last word.
import { Checkbox, FormGroup, Radio } from '@patternfly/react-core';
import { useState } from 'react';
import { useStore, useView } from '../state/context';
import type { BlockFormat } from '../api/types';
import { AccessChoice, useInitiators, type Access } from './AccessChoice';
import { Dialog } from './Dialog';
import { Field } from './Field';
import { bytesOf, SizeField, sizeFault, type Size } from './SizeField';
import { UseChoice } from './UseChoice';

const BLOCKS: { format: BlockFormat; label: string }[] = [
  { format: '512e', label: '512 bytes on 4096 (512e)' },
  { format: '512n', label: '512 bytes (512n)' },
  { format: '4kn', label: '4096 bytes (4Kn)' },
];

function nameFault(name: string, taken: boolean): string | undefined {
  if (name === '') return undefined; // not yet typed: the button is off, no need to scold
  if (name.length > 63) return 'At most 63 characters.';
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name)) {
    return 'Letters, digits, dot, underscore and hyphen; begins with a letter or a digit.';
  }
  return taken ? 'There is a volume of this name already.' : undefined;
}

export function CreateVolume({ onClose }: { onClose: () => void }) {
  const store = useStore();
  const { volumes } = useView();
  const initiators = useInitiators();
  const [name, setName] = useState('');
  const [size, setSize] = useState<Size>({ number: '10', unit: 'GiB' });
  const [thin, setThin] = useState(true);
  const [block, setBlock] = useState<BlockFormat>('512e');
  const [readOnly, setReadOnly] = useState(false);
  const [removable, setRemovable] = useState(false);
  const [encrypted, setEncrypted] = useState(false);
  const [writeCache, setWriteCache] = useState(false);
  const [access, setAccess] = useState<Access>({ any_initiator: false, access: [] });

  const badName = nameFault(name, volumes.some((v) => v.name === name));
  const badSize = sizeFault(size);
  const ready = name !== '' && size.number !== '' && !badName && !badSize;

  const create = async () => {
    const job = await store.api.createVolume({
      name, size_bytes: bytesOf(size), block_format: block, thin, read_only: readOnly, removable, encrypted, write_cache: writeCache, ...access,
    });
    store.learn(job);
    void store.refresh();
  };

  return (
    <Dialog
      title="Create a volume"
      description="It is mirrored on both nodes and can be used at once, by the hosts that you let in."
      confirm="Create"
      disabled={!ready}
      onClose={onClose}
      onConfirm={create}
    >
      {(error) => (
        <>
          <Field id="volume-name" label="Name" value={name} onChange={setName} required autoFocus error={badName ?? error?.field('/name')} />
          <SizeField label="Size" size={size} onChange={setSize} error={badSize ?? error?.field('/size_bytes')}>
            From 1 MiB to 64 TiB.
          </SizeField>
          <Checkbox
            id="volume-thin"
            label="Thin"
            description="Takes space on the disks only as it is written. Otherwise all of it is reserved now."
            isChecked={thin}
            onChange={(_, v) => setThin(v)}
          />
          <Checkbox
            id="volume-encrypted"
            label="Encrypted on each node's disk"
            description="A data disk that leaves the house can't be read without the node that it was in. Can't be changed later."
            isChecked={encrypted}
            onChange={(_, on) => setEncrypted(on)}
          />
          <FormGroup label="Blocks" role="radiogroup" fieldId="volume-block-512e" isInline>
            {BLOCKS.map(({ format, label }) => (
              <Radio
                key={format}
                id={`volume-block-${format}`}
                name="block"
                label={label}
                isChecked={block === format}
                onChange={() => setBlock(format)}
              />
            ))}
          </FormGroup>
          <UseChoice readOnly={readOnly} onReadOnly={setReadOnly} writeCache={writeCache} onWriteCache={setWriteCache} />
          <Checkbox
            id="volume-removable"
            label="Shown as removable"
            description="For tests of initiators."
            isChecked={removable}
            onChange={(_, on) => setRemovable(on)}
          />
          <AccessChoice initiators={initiators} chosen={access} onChange={setAccess} error={error?.field('/access')} />
        </>
      )}
    </Dialog>
  );
}
