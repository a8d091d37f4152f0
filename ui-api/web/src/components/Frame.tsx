// Masthead, navigation, and the word on whether what is shown is current.
import {
  Alert, Button, Label, Masthead, MastheadBrand, MastheadContent, MastheadLogo, MastheadMain, Nav, NavItem, NavList, Page,
  PageSection, SkipToContent, Toolbar, ToolbarContent, ToolbarGroup, ToolbarItem,
} from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { time } from '../format';
import { useView } from '../state/context';
import type { Connection } from '../state/live';
import { href, useRoute } from '../state/route';
import { Mark } from './Mark';
import { Loading } from './States';
import { ThemeToggle } from './ThemeToggle';

const SECTIONS = [
  ['', 'Overview'],
  ['volumes', 'Volumes'],
  ['initiators', 'Initiators'],
  ['jobs', 'Jobs'],
  ['events', 'Events'],
] as const;

const CONNECTION: Record<Connection, { text: string; hint: string; status?: 'success' | 'warning' | 'danger' | 'info' }> = {
  connecting: { text: 'Connecting', hint: 'Asking this node', status: 'info' },
  live: { text: 'Live', hint: 'Changes show at once', status: 'success' },
  polling: { text: 'Every 2 s', hint: 'The event stream is not available; this page asks every two seconds', status: 'info' },
  down: { text: 'Disconnected', hint: 'This node does not answer', status: 'danger' },
};

function Head({ onSignOut }: { onSignOut: () => void }) {
  const { connection, pair } = useView();
  const shown = CONNECTION[connection];
  return (
    <Masthead className="ls-masthead" display={{ default: 'inline' }}>
      <MastheadMain>
        <MastheadBrand>
          <MastheadLogo component="a" href={href('')} aria-label="Lockstep, overview" className="ls-brand">
            <Mark />
            <span>Lockstep</span>
          </MastheadLogo>
          {pair?.name && (
            <span className="ls-pair-name">
              <span className="pf-v6-screen-reader">Pair </span>
              {pair.name}
            </span>
          )}
        </MastheadBrand>
      </MastheadMain>
      <MastheadContent>
        <Toolbar isStatic>
          <ToolbarContent>
            <ToolbarGroup align={{ default: 'alignEnd' }} gap={{ default: 'gapSm' }} alignItems="center">
              <ToolbarItem>
                <Label status={shown.status} variant="outline" isCompact title={shown.hint} data-testid="connection">
                  {shown.text}
                </Label>
              </ToolbarItem>
              <ToolbarItem>
                <ThemeToggle />
              </ToolbarItem>
              <ToolbarItem>
                <Button variant="link" isInline onClick={onSignOut}>Sign out</Button>
              </ToolbarItem>
            </ToolbarGroup>
          </ToolbarContent>
        </Toolbar>
      </MastheadContent>
    </Masthead>
  );
}

function SectionNav() {
  const [section = ''] = useRoute();
  return (
    <Nav aria-label="Sections" variant="horizontal-subnav">
      <NavList>
        {SECTIONS.map(([path, title]) => (
          <NavItem key={path} itemId={path} isActive={section === path} to={href(path)}>
            {title}
          </NavItem>
        ))}
      </NavList>
    </Nav>
  );
}

function Disconnected() {
  const { asOf } = useView();
  const since = asOf ? ` What you see is as of ${time(new Date(asOf).toISOString())}.` : '';
  return (
    <Alert variant="danger" isInline title="This node does not answer" role="alert" data-testid="api-down">
      Its management may be down, or the network between. Volumes go on without it.{since} Trying again every two seconds; the
      other node offers the same page.
    </Alert>
  );
}

function skip(e: { preventDefault: () => void }) {
  e.preventDefault(); // the address after # names the section; keep it
  document.getElementById('content')?.focus();
}

export function Frame({ onSignOut, children }: { onSignOut: () => void; children: ReactNode }) {
  const { connection, error, loaded } = useView();
  return (
    <Page
      masthead={<Head onSignOut={onSignOut} />}
      horizontalSubnav={<SectionNav />}
      skipToContent={<SkipToContent href="#content" onClick={skip}>Skip to content</SkipToContent>}
      isContentFilled
      mainContainerId="content"
      mainTabIndex={-1}
    >
      {connection === 'down' && (
        <PageSection className="ls-notice">
          <Disconnected />
        </PageSection>
      )}
      {error && connection !== 'down' && (
        <PageSection className="ls-notice">
          <Alert variant="warning" isInline title="This node cannot tell how it is">{error}</Alert>
        </PageSection>
      )}
      {loaded ? children : connection !== 'down' && !error && <Loading />}
    </Page>
  );
}
