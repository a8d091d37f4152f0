// The frame of every dialog that asks the server for something: a form, the failure if any, two buttons.
import { Button, Form, Modal, ModalBody, ModalFooter, ModalHeader } from '@patternfly/react-core';
import { useState, type FormEvent, type ReactNode } from 'react';
import { ApiError } from '../api/client';
import { Failure } from './States';

interface Props {
  title: string;
  description?: ReactNode;
  confirm: string; // what the button says
  danger?: boolean;
  disabled?: boolean;
  onClose: () => void;
  /** Does it; the dialog closes when this returns and stays, with the reason, when it throws. */
  onConfirm: () => Promise<void>;
  children: (error: ApiError | null) => ReactNode;
}

export function Dialog({ title, description, confirm, danger, disabled, onClose, onConfirm, children }: Props) {
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    if (disabled || busy) return;
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      onClose();
    } catch (failure) {
      setError(failure as Error);
      setBusy(false);
    }
  };
  return (
    <Modal variant="small" isOpen onClose={onClose} aria-labelledby="dialog-title">
      <ModalHeader title={title} description={description} labelId="dialog-title" titleIconVariant={danger ? 'warning' : undefined} />
      <ModalBody>
        <Form id="dialog-form" onSubmit={(e) => void submit(e)}>
          <Failure error={error} />
          {children(error instanceof ApiError ? error : null)}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button type="submit" form="dialog-form" variant={danger ? 'danger' : 'primary'} isDisabled={disabled || busy} isLoading={busy}>
          {confirm}
        </Button>
        <Button variant="link" onClick={onClose}>Cancel</Button>
      </ModalFooter>
    </Modal>
  );
}
