// A labelled text field with its help, or what is wrong with it.
import { FormGroup, FormHelperText, HelperText, HelperTextItem, TextInput } from '@patternfly/react-core';
import type { ReactNode } from 'react';

interface Props {
  id: string;
  label: string;
  value: string;
  onChange: (value: string) => void;
  error?: string;
  help?: ReactNode;
  required?: boolean;
  type?: 'text' | 'password';
  autoFocus?: boolean;
  placeholder?: string;
}

export function Hint({ id, error, children }: { id: string; error?: string; children?: ReactNode }) {
  if (!error && !children) return null;
  return (
    <FormHelperText>
      <HelperText id={id} aria-live="polite">
        <HelperTextItem variant={error ? 'error' : 'default'}>{error ?? children}</HelperTextItem>
      </HelperText>
    </FormHelperText>
  );
}

export function Field({ id, label, value, onChange, error, help, required, type = 'text', autoFocus, placeholder }: Props) {
  return (
    <FormGroup label={label} fieldId={id} isRequired={required}>
      <TextInput
        id={id}
        type={type}
        value={value}
        isRequired={required}
        placeholder={placeholder}
        autoFocus={autoFocus}
        autoComplete={type === 'password' ? 'new-password' : 'off'}
        spellCheck={false}
        onChange={(_, next) => onChange(next)}
        validated={error ? 'error' : 'default'}
        aria-describedby={`${id}-hint`}
      />
      <Hint id={`${id}-hint`} error={error}>{help}</Hint>
    </FormGroup>
  );
}
