// Who may use a volume: the initiators that are ticked, or any. Nobody, until one of the two is chosen.
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

export interface Access {
  any_initiator: boolean;
  access: string[];
}

interface Props {
  initiators: Initiator[] | null;
  chosen: Access;
  onChange: (chosen: Access) => void;
  error?: string;
}

function meaning({ any_initiator: any, access }: Access, known: number | undefined): string {
  if (any) return 'Whatever host reaches a portal may use it.';
  if (access.length > 0) return 'Only those ticked may use it.';
  return known === 0 ? 'Nobody may use it yet: make initiators known first, then let them in.' : 'None ticked: nobody may use it yet.';
}

export function AccessChoice({ initiators, chosen, onChange, error }: Props) {
  const { any_initiator: any, access } = chosen;
  const toggle = (iqn: string, on: boolean) =>
    onChange({ any_initiator: false, access: on ? [...access, iqn] : access.filter((x) => x !== iqn) });
  return (
    <FormGroup label="Access" role="group" fieldId="access">
      {initiators?.map(({ iqn }, i) => (
        <Checkbox
          key={iqn}
          id={`access-${i}`}
          label={<span className="ls-code">{iqn}</span>}
          isChecked={access.includes(iqn)}
          isDisabled={any}
          onChange={(_, on) => toggle(iqn, on)}
        />
      ))}
      <Checkbox
        id="access-any"
        label="Any initiator"
        isChecked={any}
        onChange={(_, on) => onChange({ any_initiator: on, access: [] })}
      />
      <Hint id="access-hint" error={error}>{meaning(chosen, initiators?.length)}</Hint>
    </FormGroup>
  );
}
