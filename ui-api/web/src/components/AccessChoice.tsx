// Who may use a volume: any initiator, or those that are ticked.
import { Checkbox, FormGroup } from '@patternfly/react-core';
import { useEffect, useState } from 'react';
import type { Initiator } from '../api/types';
import { useStore } from '../state/context';
import { Hint } from './Field';

/** The known initiators; null until they have been read (or cannot be). */
export function useInitiators(): Initiator[] | null {
  const store = useStore();
  const [list, setList] = useState<Initiator[] | null>(null);
  useEffect(() => {
    let here = true;
    store.api.list<Initiator>('/initiators').then((l) => here && setList(l), () => undefined);
    return () => {
      here = false;
    };
  }, [store]);
  return list;
}

interface Props {
  initiators: Initiator[] | null;
  chosen: string[];
  onChange: (chosen: string[]) => void;
  error?: string;
}

export function AccessChoice({ initiators, chosen, onChange, error }: Props) {
  const toggle = (iqn: string, on: boolean) => onChange(on ? [...chosen, iqn] : chosen.filter((x) => x !== iqn));
  const none = initiators?.length === 0;
  return (
    <FormGroup label="Access" role="group" fieldId="access">
      {initiators?.map(({ iqn }, i) => (
        <Checkbox
          key={iqn}
          id={`access-${i}`}
          label={<span className="ls-code">{iqn}</span>}
          isChecked={chosen.includes(iqn)}
          onChange={(_, on) => toggle(iqn, on)}
        />
      ))}
      <Hint id="access-hint" error={error}>
        {none
          ? 'Any initiator may use it. To restrict it, make initiators known first.'
          : chosen.length === 0
            ? 'None ticked: any initiator may use it.'
            : 'Only those ticked may use it.'}
      </Hint>
    </FormGroup>
  );
}
