// Read-only or not, write cache or not: the same words wherever they are asked for.
import { Checkbox } from '@patternfly/react-core';

export function UseChoice(props: {
  readOnly: boolean;
  onReadOnly: (on: boolean) => void;
  writeCache: boolean;
  onWriteCache: (on: boolean) => void;
}) {
  return (
    <>
      <Checkbox
        id="volume-read-only"
        label="Read-only"
        description="Hosts may read and not write."
        isChecked={props.readOnly}
        onChange={(_, on) => props.onReadOnly(on)}
      />
      <Checkbox
        id="volume-write-cache"
        label="Write cache"
        description="Faster: writes are answered before they are on stable storage. A power cut of both nodes, or of the one that serves alone, loses what a host had not flushed."
        isChecked={props.writeCache}
        onChange={(_, on) => props.onWriteCache(on)}
      />
    </>
  );
}
