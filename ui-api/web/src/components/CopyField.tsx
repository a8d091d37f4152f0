// A text that is going to be pasted elsewhere, with a button that copies it.
import { ClipboardCopy } from '@patternfly/react-core';

export function CopyField({ label, text }: { label: string; text: string }) {
  return (
    <ClipboardCopy isReadOnly hoverTip="Copy" clickTip="Copied" textAriaLabel={label} toggleAriaLabel={`Copy ${label}`} isCode>
      {text}
    </ClipboardCopy>
  );
}
