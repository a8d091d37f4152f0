// The one sentence that matters, and what is wrong in sentences below it.
import { Icon } from '@patternfly/react-core';
import CheckCircleIcon from '@patternfly/react-icons/dist/esm/icons/check-circle-icon';
import ExclamationCircleIcon from '@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon';
import ExclamationTriangleIcon from '@patternfly/react-icons/dist/esm/icons/exclamation-triangle-icon';
import InfoCircleIcon from '@patternfly/react-icons/dist/esm/icons/info-circle-icon';
import QuestionCircleIcon from '@patternfly/react-icons/dist/esm/icons/question-circle-icon';
import type { Health, HealthProblem, HealthStatus } from '../api/types';
import { href } from '../state/route';
import { healthTone } from './StateLabel';

const ICON = { ok: CheckCircleIcon, degraded: ExclamationTriangleIcon, critical: ExclamationCircleIcon };
const WORD: Record<HealthStatus, string> = { ok: 'All is well', degraded: 'Degraded', critical: 'Needs you' };

const OF_PROBLEM = {
  info: { Shown: InfoCircleIcon, tone: 'info' },
  warning: { Shown: ExclamationTriangleIcon, tone: 'warning' },
  critical: { Shown: ExclamationCircleIcon, tone: 'danger' },
} as const;

function Problem({ problem }: { problem: HealthProblem }) {
  const { Shown, tone } = OF_PROBLEM[problem.severity];
  return (
    <li className="ls-problem">
      <Icon status={tone} isInline><Shown /></Icon>
      <div>
        {problem.volume_id ? <a href={href('volumes', problem.volume_id)}>{problem.message}</a> : problem.message}
        {problem.advice && <div className="ls-quiet">{problem.advice}</div>}
      </div>
    </li>
  );
}

// With hundreds of volumes one lost node has hundreds of consequences; the first few tell the story.
const MAX_PROBLEMS = 6;

/** The node does not answer, or refuses: what it told last may be wrong by now. */
export function UnknownHealth({ last, why }: { last: Health; why: string }) {
  return (
    <section className="ls-health ls-health-unknown" aria-label="Health" aria-live="polite" data-testid="health">
      <Icon size="xl"><QuestionCircleIcon /></Icon>
      <div className="ls-health-words">
        <div className="ls-health-word" data-testid="health-status">Not known</div>
        <div>{why ? 'This node cannot tell.' : 'This node does not answer.'} It told last: {last.summary}</div>
      </div>
    </section>
  );
}

export function HealthBanner({ health }: { health: Health }) {
  const Shown = ICON[health.status];
  return (
    <section className={`ls-health ls-health-${health.status}`} aria-label="Health" aria-live="polite" data-testid="health">
      <Icon size="xl" status={healthTone(health.status)}><Shown /></Icon>
      <div className="ls-health-words">
        <div className="ls-health-word" data-testid="health-status">{WORD[health.status]}</div>
        <div>{health.summary}</div>
        {health.problems.length > 0 && (
          <ul className="ls-problems">
            {health.problems.slice(0, MAX_PROBLEMS).map((p, i) => <Problem key={`${p.subject}-${p.side}-${p.volume_id}-${i}`} problem={p} />)}
            {health.problems.length > MAX_PROBLEMS && (
              <li className="ls-quiet">and {health.problems.length - MAX_PROBLEMS} more</li>
            )}
          </ul>
        )}
      </div>
    </section>
  );
}
