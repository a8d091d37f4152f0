// The dialog that makes a volume. It checks what it can before asking; the server has the last word.
import { Checkbox, FormGroup, FormSelect, FormSelectOption, InputGroup, InputGroupItem, Radio, TextInput } from '@patternfly/react-core';
import { useState } from 'react';
import { useStore, useView } from '../state/context';
import type { BlockFormat } from '../api/types';
import { AccessChoice, useInitiators } from './AccessChoice';
import { Dialog } from './Dialog';
import { Field, Hint } from './Field';
import { UseChoice } from './UseChoice';

const UNIT = { MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 } as const;
type Unit = keyof typeof UNIT;
const MAX_BYTES = 64 * UNIT.TiB;

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

function sizeFault(size: string, bytes: number): string | undefined {
  if (size === '') return undefined;
  if (!/^\d+([.,]\d+)?$/.test(size)) return 'A number, such as 10 or 1.5.';
  if (bytes < UNIT.MiB) return 'At least 1 MiB.';
  return bytes > MAX_BYTES ? 'At most 64 TiB.' : undefined;
}

export function CreateVolume({ onClose }: { onClose: () => void }) {
  const store = useStore();
  const { volumes } = useView();
  const initiators = useInitiators();
  const [name, setName] = useState('');
  const [size, setSize] = useState('10');
  const [unit, setUnit] = useState<Unit>('GiB');
  const [thin, setThin] = useState(true);
  const [block, setBlock] = useState<BlockFormat>('512e');
  const [readOnly, setReadOnly] = useState(false);
  const [removable, setRemovable] = useState(false);
  const [writeCache, setWriteCache] = useState(false);
  const [access, setAccess] = useState<string[]>([]);

  const exact = Number(size.replace(',', '.')) * UNIT[unit];
  const bytes = Math.ceil(exact / 4096) * 4096;
  const badName = nameFault(name, volumes.some((v) => v.name === name));
  const badSize = sizeFault(size, exact);
  const ready = name !== '' && size !== '' && !badName && !badSize;

  const create = async () => {
    const job = await store.api.createVolume({
      name, size_bytes: bytes, block_format: block, thin, read_only: readOnly, removable, write_cache: writeCache, access,
    });
    store.learn(job);
    void store.refresh();
  };

  return (
    <Dialog
      title="Create a volume"
      description="It is mirrored on both nodes and can be used at once."
      confirm="Create"
      disabled={!ready}
      onClose={onClose}
      onConfirm={create}
    >
      {(error) => (
        <>
          <Field id="volume-name" label="Name" value={name} onChange={setName} required autoFocus error={badName ?? error?.field('/name')} />
          <FormGroup label="Size" fieldId="volume-size" isRequired>
            <InputGroup>
              <InputGroupItem isFill>
                <TextInput
                  id="volume-size"
                  inputMode="decimal"
                  value={size}
                  onChange={(_, v) => setSize(v.trim())}
                  validated={badSize ? 'error' : 'default'}
                  aria-describedby="volume-size-hint"
                />
              </InputGroupItem>
              <InputGroupItem>
                <FormSelect value={unit} onChange={(_, v) => setUnit(v as Unit)} aria-label="Unit of the size">
                  {Object.keys(UNIT).map((u) => <FormSelectOption key={u} value={u} label={u} />)}
                </FormSelect>
              </InputGroupItem>
            </InputGroup>
            <Hint id="volume-size-hint" error={badSize ?? error?.field('/size_bytes')}>From 1 MiB to 64 TiB.</Hint>
          </FormGroup>
          <Checkbox
            id="volume-thin"
            label="Thin"
            description="Takes space on the disks only as it is written. Otherwise all of it is reserved now."
            isChecked={thin}
            onChange={(_, v) => setThin(v)}
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
