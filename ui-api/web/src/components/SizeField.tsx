// The size of a volume as people type it: a number and a unit. It checks what it can; the server has the last word.
import { FormGroup, FormSelect, FormSelectOption, InputGroup, InputGroupItem, TextInput } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { Hint } from './Field';

const UNIT = { MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 } as const;
type Unit = keyof typeof UNIT;
const MAX_BYTES = 64 * UNIT.TiB;

export interface Size {
  number: string;
  unit: Unit;
}

/** The largest unit that `bytes` has one of. */
export const unitFor = (bytes: number): Unit => (bytes >= UNIT.TiB ? 'TiB' : bytes >= UNIT.GiB ? 'GiB' : 'MiB');

const exact = ({ number, unit }: Size) => Number(number.replace(',', '.')) * UNIT[unit];

/** In bytes: whole blocks of 4 KiB, never less than was asked for. */
export const bytesOf = (size: Size) => Math.ceil(exact(size) / 4096) * 4096;

/** What is wrong with it; nothing while nothing is typed. */
export function sizeFault(size: Size): string | undefined {
  if (size.number === '') return undefined;
  if (!/^\d+([.,]\d+)?$/.test(size.number)) return 'A number, such as 10 or 1.5.';
  if (exact(size) < UNIT.MiB) return 'At least 1 MiB.';
  return exact(size) > MAX_BYTES ? 'At most 64 TiB.' : undefined;
}

interface Props {
  label: string;
  size: Size;
  onChange: (size: Size) => void;
  error?: string;
  autoFocus?: boolean;
  children: ReactNode; // the hint
}

export function SizeField({ label, size, onChange, error, autoFocus, children }: Props) {
  return (
    <FormGroup label={label} fieldId="volume-size" isRequired>
      <InputGroup>
        <InputGroupItem isFill>
          <TextInput
            id="volume-size"
            inputMode="decimal"
            value={size.number}
            autoFocus={autoFocus}
            onChange={(_, v) => onChange({ ...size, number: v.trim() })}
            validated={error ? 'error' : 'default'}
            aria-describedby="volume-size-hint"
          />
        </InputGroupItem>
        <InputGroupItem>
          <FormSelect value={size.unit} onChange={(_, v) => onChange({ ...size, unit: v as Unit })} aria-label="Unit of the size">
            {Object.keys(UNIT).map((u) => <FormSelectOption key={u} value={u} label={u} />)}
          </FormSelect>
        </InputGroupItem>
      </InputGroup>
      <Hint id="volume-size-hint" error={error}>{children}</Hint>
    </FormGroup>
  );
}
