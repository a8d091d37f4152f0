// Asks for a token and tries it before letting the reader in.
import {
  Alert, Button, Card, CardBody, Form, FormGroup, FormHelperText, HelperText, HelperTextItem, TextInput, Title,
} from '@patternfly/react-core';
import { useState, type FormEvent } from 'react';
import { Api, ApiError } from '../api/client';
import { Mark } from '../components/Mark';
import { ThemeToggle } from '../components/ThemeToggle';

export function LoginPage({ notice, onSignIn }: { notice: string; onSignIn: (token: string) => void }) {
  const [token, setToken] = useState('');
  const [error, setError] = useState(notice);
  const [busy, setBusy] = useState(false);

  const submit = async (e: FormEvent) => {
    e.preventDefault();
    const wanted = token.trim();
    if (!wanted) return setError('Paste a token first.');
    setBusy(true);
    try {
      await new Api(wanted).get('/health');
      onSignIn(wanted);
    } catch (failure) {
      const refused = failure instanceof ApiError && failure.problem.status === 401;
      if (refused) setError('This token is not valid. It may have expired or been revoked.');
      else if (failure instanceof ApiError) setError(failure.message);
      else setError('This node does not answer. Check that lockstep-mgmtd runs on it, then try again.');
      setBusy(false);
    }
  };

  return (
    <main className="ls-login">
      <div className="ls-login-theme">
        <ThemeToggle />
      </div>
      <Card className="ls-login-card">
        <CardBody>
          <div className="ls-login-head">
            <Mark size={44} />
            <Title headingLevel="h1" size="2xl">Lockstep</Title>
            <p className="ls-quiet">Two servers, one highly available disk.</p>
          </div>
          <Form onSubmit={(e) => void submit(e)}>
            {error && <Alert isInline variant="danger" title={error} role="alert" />}
            <FormGroup label="Token" fieldId="token" isRequired>
              <TextInput
                id="token"
                type="password"
                autoComplete="current-password"
                autoFocus
                value={token}
                onChange={(_, value) => setToken(value)}
                aria-describedby="token-help"
                validated={error ? 'error' : 'default'}
              />
              <FormHelperText>
                <HelperText id="token-help">
                  <HelperTextItem>
                    Make one on a node with <code>lockstep token create</code>. It is kept until this tab is closed.
                  </HelperTextItem>
                </HelperText>
              </FormHelperText>
            </FormGroup>
            <Button type="submit" isBlock isLoading={busy} isDisabled={busy}>Sign in</Button>
          </Form>
        </CardBody>
      </Card>
    </main>
  );
}
