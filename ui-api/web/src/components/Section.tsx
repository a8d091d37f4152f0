// A titled part of a page, with its actions at the right.
import { Title } from '@patternfly/react-core';
import type { ReactNode } from 'react';

interface Props {
  title: string;
  level?: 'h1' | 'h2';
  actions?: ReactNode;
  children: ReactNode;
  plain?: boolean; // without the frame
}

export function Section({ title, level = 'h2', actions, children, plain }: Props) {
  return (
    <section className="ls-section" aria-label={title}>
      <div className="ls-section-head">
        <Title headingLevel={level} size={level === 'h1' ? 'xl' : 'lg'}>{title}</Title>
        {actions && <div className="ls-push ls-row">{actions}</div>}
      </div>
      {plain ? children : <div className="ls-panel">{children}</div>}
    </section>
  );
}
