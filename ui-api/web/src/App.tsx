// Signed in or not; then the frame around the section that the address names.
import { useCallback, useEffect, useState } from 'react';
import { Api } from './api/client';
import { Frame } from './components/Frame';
import { EventsPage } from './pages/Events';
import { InitiatorsPage } from './pages/Initiators';
import { JobsPage } from './pages/Jobs';
import { LoginPage } from './pages/Login';
import { NotThere } from './components/States';
import { OverviewPage } from './pages/Overview';
import { VolumeDetailPage } from './pages/VolumeDetail';
import { VolumesPage } from './pages/Volumes';
import { StoreProvider } from './state/context';
import { LiveStore } from './state/live';
import { useRoute } from './state/route';
import { forgetToken, saveToken, savedToken } from './state/token';

function Section() {
  const [section = '', id] = useRoute();
  switch (section) {
    case '':
      return <OverviewPage />;
    case 'volumes':
      return id ? <VolumeDetailPage key={id} id={id} /> : <VolumesPage />;
    case 'initiators':
      return <InitiatorsPage />;
    case 'jobs':
      return <JobsPage />;
    case 'events':
      return <EventsPage />;
    default:
      return <NotThere what="page" />;
  }
}

export function App() {
  const [token, setToken] = useState(savedToken);
  const [notice, setNotice] = useState('');
  const [store, setStore] = useState<LiveStore | null>(null);

  const signOut = useCallback((why = '') => {
    forgetToken();
    setNotice(why);
    setToken(null);
  }, []);

  useEffect(() => {
    if (token === null) return setStore(null);
    const next = new LiveStore(new Api(token), signOut);
    setStore(next);
    next.start();
    return () => next.close();
  }, [token, signOut]);

  if (token === null) {
    const signIn = (accepted: string) => {
      saveToken(accepted);
      setNotice('');
      setToken(accepted);
    };
    return <LoginPage notice={notice} onSignIn={signIn} />;
  }
  if (!store) return null;
  return (
    <StoreProvider store={store}>
      <Frame onSignOut={() => signOut()}>
        <Section />
      </Frame>
    </StoreProvider>
  );
}
