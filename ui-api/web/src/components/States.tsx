// What stands where there is nothing to show: loading, empty, not there, refused.
import { Alert, Bullseye, Button, EmptyState, EmptyStateBody, PageSection, Spinner } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { ApiError } from '../api/client';
import { href } from '../state/route';

export function Loading() {
  return (
    <PageSection isFilled>
      <Bullseye>
        <Spinner aria-label="Asking this node" />
      </Bullseye>
    </PageSection>
  );
}

export function NotThere({ what }: { what: string }) {
  return (
    <PageSection isFilled>
      <EmptyState titleText={`There is no such ${what}`} headingLevel="h1">
        <EmptyStateBody>It may have been deleted, or the address is mistyped.</EmptyStateBody>
        <Button component="a" href={href('')} variant="link">To the overview</Button>
      </EmptyState>
    </PageSection>
  );
}

export function Empty({ title, children, action }: { title: string; children: ReactNode; action?: ReactNode }) {
  return (
    <EmptyState titleText={title} headingLevel="h3" variant="sm">
      <EmptyStateBody>{children}</EmptyStateBody>
      {action}
    </EmptyState>
  );
}

/** A failed request in the server's words; what it says of single fields stands at those fields. */
export function Failure({ error }: { error: Error | null }) {
  if (!error) return null;
  const title = error instanceof ApiError ? error.problem.title : 'This node does not answer';
  const text = error instanceof ApiError ? error.problem.detail : 'Nothing may have been changed. Look, then try again.';
  return (
    <Alert isInline variant="danger" title={title} role="alert">
      {text}
    </Alert>
  );
}
